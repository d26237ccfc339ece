"""What holds for every grader and every text, however hostile."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canaryd import graders
from canaryd.graders import GRADERS, answers, jsontext
from canaryd.graders.base import Example
from canaryd.graders.number import token, value
from canaryd.graders.text import normalised
from canaryd.records import GraderSpec, Item, JsonValue

FORMS: list[JsonValue] = list(answers.FALLBACKS)
#: What parsers stumble over, to be mixed with arbitrary text; lone surrogates included.
FRAGMENTS = (
    *("<answer>", "</answer>", "\\boxed{", "{", "}", "```\n", "answer:", "\n", " ", "-", "\u2212", "/", "%", "$"),
    *("1", "1,", "1 000", ".", "e9", "\\frac{", "\\frac{1}{2}", "{,}", "\\times 10^", "\u00bd", "\u0661", "nan", "NaN"),
    *(
        '{"a":',
        "[",
        "]",
        '"',
        "true",
        "B)",
        "(A)",
        "option ",
        "**",
        "\x00",
        "\x1c",
        "\ud800",
        "e\u0301",
        "def f(): pass",
    ),
)
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(st.characters(), max_size=5), max_size=25).map("".join)


def item_of(name: str, example: Example) -> Item:
    """Return an example's item, which takes its answer wherever it stands."""
    spec = GraderSpec(name, {**example.options, "fallbacks": FORMS})
    return Item("i", family="f", cluster="c", prompt="?", target=example.target, grader=spec)


ITEMS = [item_of(name, grader.examples[0]) for name, grader in GRADERS.items()]


@pytest.mark.parametrize("item", ITEMS, ids=[item.grader.type for item in ITEMS])
@settings(deadline=None, max_examples=300)
@given(text=TEXTS)
def test_a_grader_never_raises_and_always_gives_the_same_finite_grade(item: Item, text: str) -> None:
    if graders.job(item, text) is not None:
        return
    graded = graders.grade(item, text)

    assert math.isfinite(graded.score)
    assert 0 <= graded.score <= 1
    assert graded.answered or graded.score == 0
    assert graded.detail.isascii()
    assert len(graded.detail) < 200
    assert graders.grade(item, text) == graded


@given(
    text=TEXTS,
    options=st.fixed_dictionaries(
        {}, optional={"ignore_case": st.booleans(), "collapse_space": st.booleans(), "strip": st.text(min_size=1)}
    ),
)
def test_normalising_twice_changes_nothing(text: str, options: dict[str, JsonValue]) -> None:
    once = normalised(text, options)

    assert normalised(once, options) == once


@given(text=TEXTS, forms=st.permutations(answers.FALLBACKS))
def test_an_extracted_answer_stands_in_the_reply(text: str, forms: list[str]) -> None:
    answer = answers.extract(text, tuple(forms))

    assert answer is not None
    assert all(line in text for line in answer.splitlines())


@given(st.integers(), st.sampled_from(["{}", "{:,}", "${}$", "\\boxed{{{}}}", "**{}**", "it is {}.", "x = {}", "{}.0"]))
def test_an_integer_is_read_however_it_is_written(number: int, form: str) -> None:
    assert value(token(form.format(number)) or "") == number


@given(st.fractions(max_denominator=10**6))
def test_a_fraction_is_read_in_both_notations(number: object) -> None:
    sign, above, below = ("-" if str(number).startswith("-") else ""), *str(number).lstrip("-").partition("/")[::2]
    latex = f"{sign}\\frac{{{above}}}{{{below or 1}}}"

    assert value(token(str(number)) or "") == number
    assert value(token(latex) or "") == number


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_the_form_of_a_value_is_the_form_of_what_it_writes(one: JsonValue) -> None:
    assert jsontext.form(jsontext.read(jsontext.form(one))) == jsontext.form(one)


def test_nesting_is_refused_at_one_depth() -> None:
    deepest = "[" * jsontext.MAX_DEPTH + "]" * jsontext.MAX_DEPTH

    assert jsontext.read(deepest) is not None
    for depth in (1, 10, 100_000):
        with pytest.raises(ValueError, match="nested"):
            jsontext.read("[" * depth + deepest + "]" * depth)


def cost_s(item: Item, piece: str, length: int) -> float:
    """Return the processor time that grading takes, for a tagged and for a bare text made of one piece."""
    text = (piece * (length // len(piece) + 1))[:length]
    started = time.thread_time()
    for reply in (text, f"<answer>{text}</answer>"):
        if graders.job(item, reply) is None:
            graders.grade(item, reply)
    return time.thread_time() - started


@pytest.mark.parametrize("item", ITEMS, ids=[item.grader.type for item in ITEMS])
def test_the_cost_of_hostile_text_grows_with_its_length_and_not_with_its_square(item: Item) -> None:
    for piece in FRAGMENTS:
        small = min(cost_s(item, piece, 3_000) for _ in range(3))
        large = min(cost_s(item, piece, 48_000) for _ in range(2))

        # 16 times the text: 16 times the cost if linear, 256 times if quadratic. Below a millisecond nothing is told.
        assert large < 64 * max(small, 0.0005), piece


@pytest.mark.parametrize("item", ITEMS, ids=[item.grader.type for item in ITEMS])
@pytest.mark.parametrize("piece", ["1", "<answer>", "\\boxed{", "[", " ", "a+"])
def test_a_megabyte_gets_a_grade(item: Item, piece: str) -> None:
    text = piece * (1_000_000 // len(piece))

    assert graders.job(item, text) is not None or graders.grade(item, text).score < 1
