"""Replies that harnesses were seen to grade wrongly, each with the grade that is right."""

from __future__ import annotations

import pytest

from canaryd import graders
from canaryd.graders import GraderError, JobResult
from canaryd.graders.base import scored
from canaryd.records import Grade, GraderSpec, Item, JsonValue

ANYWHERE: list[JsonValue] = ["boxed", "line", "whole"]


def asked(grader: str, target: JsonValue, **options: JsonValue) -> Item:
    """Return an item that takes its answer wherever it stands."""
    spec = GraderSpec(grader, {"fallbacks": ANYWHERE, **options})
    return Item("i", family="f", cluster="c", prompt="?", target=target, grader=spec)


def number(target: JsonValue, reply: str) -> Grade:
    """Return the grade of a reply to a question for a number."""
    return graders.grade(asked("number", target), reply)


@pytest.mark.parametrize("reply", ["\\boxed{8{,}000}", "$8,000.", "8 000", "8000.00", "8\u202f000", "**8,000**", "8e3"])
def test_thousands_may_be_separated(reply: str) -> None:
    assert number(8000, reply).score == 1


@pytest.mark.parametrize("reply", ["8,00", "18000", "80,00", "8.000", "8000,000"])
def test_another_number_that_shares_digits_is_wrong(reply: str) -> None:
    assert (number(8000, reply).score, number(8000, reply).answered) == (0, True)


@pytest.mark.parametrize("reply", ["\\boxed{\\frac{1}{2}}", "0.5", "1/2", "\\dfrac12", "50%", ".5", "2/4", "\u00bd"])
def test_a_half_may_be_written_in_many_ways(reply: str) -> None:
    assert number("1/2", reply).score == 1


def test_of_two_boxes_the_last_counts() -> None:
    assert number(2, "\\boxed{1} is wrong, so \\boxed{2}").score == 1
    assert number(1, "\\boxed{1} is wrong, so \\boxed{2}").score == 0


@pytest.mark.parametrize("reply", ["\u22125", "-5.0", "\u20135", "$-5$", "x = -5", "-\\frac{10}{2}"])
def test_a_minus_sign_may_be_unicode(reply: str) -> None:
    assert number(-5, reply).score == 1


@pytest.mark.parametrize("reply", ["5", "25", "+5", "-25"])
def test_a_number_without_its_sign_is_wrong(reply: str) -> None:
    assert (number(-5, reply).score, number(-5, reply).answered) == (0, True)


@pytest.mark.parametrize(
    "reply", ["1_000", "nan", "Infinity", "-inf", "\\boxed{\\infty}", "1000x", "a1000", "0x3e8", ""]
)
def test_what_is_no_number_is_unanswered(reply: str) -> None:
    assert (number(1000, reply).score, number(1000, reply).answered) == (0, False)


@pytest.mark.parametrize("reply", ["20 - 10", "5 or 10", "10 of 12", "- 10", "10:30", "2024-10-10", "10^2", "1/2/3"])
def test_several_numbers_are_no_answer(reply: str) -> None:
    assert not number(10, reply).answered


def test_a_division_by_zero_equals_nothing() -> None:
    assert (number(0, "1/0").score, number(0, "1/0").answered) == (0, True)


@pytest.mark.parametrize(
    "reply", ["**B.**", "(B)", "B) because A is too small", "Answer: B,", "b", "\\boxed{B}", "B: it is"]
)
def test_a_choice_may_be_decorated(reply: str) -> None:
    assert graders.grade(asked("choice", "B"), reply).score == 1


@pytest.mark.parametrize("reply", ["A, B, and C", "A or B", "A) 3 B) 4", "(A) (B)", "Beta", "B2", "none of them", "E"])
def test_several_choices_or_none_are_no_answer(reply: str) -> None:
    assert not graders.grade(asked("choice", "B"), reply).answered


@pytest.mark.parametrize("grader", ["number", "digits"])
@pytest.mark.parametrize(
    "reply", ["9" * 10_000, "<answer>" + "9" * 10_000 + "</answer>", "1" + "0" * 9_999 + ".5", "1e9999999"]
)
def test_a_very_long_number_gets_a_grade(grader: str, reply: str) -> None:
    assert graders.grade(asked(grader, "12"), reply).score < 0.01


def test_without_a_tag_only_declared_forms_are_read() -> None:
    spec = GraderSpec("number", {"fallbacks": ["line"]})
    item = Item("i", family="f", cluster="c", prompt="?", target=7, grader=spec)

    assert graders.grade(item, "It is\nANSWER: 7").score == 1
    assert not graders.grade(item, "\\boxed{7}").answered
    assert graders.grade(item, "<answer>8</answer>\nANSWER: 7").score == 0


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -0.1, 1.1])
def test_a_score_that_is_no_fraction_is_a_failure_of_the_grader(score: float, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = graders.Grader("broken", 1, "", {}, lambda *_: None, lambda *_: "", lambda *_: scored(score), ())
    monkeypatch.setattr(graders, "GRADERS", {"broken": broken})

    with pytest.raises(GraderError, match="outside"):
        graders.grade(asked("broken", 1), "x")


def test_a_grader_that_raises_is_a_failure_of_the_grader(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = graders.Grader("broken", 1, "", {}, lambda *_: None, lambda *_: "", lambda *_: scored(1 / 0), ())
    monkeypatch.setattr(graders, "GRADERS", {"broken": broken})

    with pytest.raises(GraderError, match="ZeroDivisionError"):
        graders.grade(asked("broken", 1), "x")


def test_an_unknown_grader_is_a_failure_of_the_grader() -> None:
    with pytest.raises(GraderError, match="unknown grader"):
        graders.grade(asked("nothing", 1), "x")


CODE = asked("code", {"solution": "f = abs", "tests": [{"args": [-1], "returns": 1}]}, entry="f")


def test_code_is_graded_by_the_result_of_its_job_alone() -> None:
    with pytest.raises(GraderError):
        graders.grade(CODE, "<answer>f = abs</answer>")
    with pytest.raises(GraderError):
        graders.grade(asked("number", 1), JobResult("returned", (1,)))
    assert graders.grade(CODE, JobResult("returned", (1,))).passed


def test_a_job_takes_the_program_out_of_a_fence_and_holds_no_expected_output() -> None:
    job = graders.job(CODE, "<answer>\n```python\ndef f(x):\n    return 77\n```\n</answer>")

    assert job is not None
    assert job.code == "def f(x):\n    return 77"
    assert job.inputs == ([-1],)
    assert not {"returns", "solution", "abs"} & set(repr(job).replace("'", " ").split())


def test_runs_that_differ_measure_nothing() -> None:
    with pytest.raises(GraderError):
        graders.grade(CODE, JobResult("differs"))


def test_returned_values_are_compared_as_json() -> None:
    item = asked("code", {"solution": "-", "tests": [{"args": [], "returns": 1}]}, entry="f")

    assert graders.grade(item, JobResult("returned", (1.0,))).passed
    assert not graders.grade(item, JobResult("returned", (True,))).passed
    assert not graders.grade(item, JobResult("returned", ("1",))).passed
