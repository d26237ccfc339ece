"""The judge of a panel's answers: what its anchors file refuses, and what becomes of answers that say nothing."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from canaryd import graders
from canaryd.config import Retry
from canaryd.errors import ConfigError
from canaryd.judging import JudgeConfig
from canaryd.providers.base import ProviderError
from canaryd.records import Arm, Ask, Failure, Grade, GraderSpec, Item, Reply
from canaryd.runner.budget import Spare
from canaryd.runner.grading import Grading, needs_sandbox
from canaryd.runner.judge import JudgePlan, open_judge, parse_anchors
from canaryd.testing import FakeClock, ScriptedProvider

DAY = date(2027, 1, 1)
ITEM = Item("why", "f", "why", "Why?", "because", GraderSpec("judge", {"rubric": "Says because."}))
ASK = Ask("s", "tracked", DAY, "why", 0, "", "Why?")
CONFIG = JudgeConfig(Arm("judge", "control", "scripted", "m"), "fam", "1")
GOOD = '{"id": "a", "item": "why", "answer": "<answer>because</answer>", "label": "correct"}'


def anchors(*lines: str) -> Any:
    return parse_anchors("\n".join(lines).encode(), {"why": ITEM}, source=Path("anchors.jsonl"))


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "anchors.jsonl: holds no anchor"),
        ([GOOD, GOOD], "anchors.jsonl:2: the id 'a' stands twice"),
        ([GOOD.replace('"why"', '"what"')], "anchors.jsonl:1: item is 'what', but the panel's judged items are why"),
        ([GOOD.replace('"correct"', '"good"')], "anchors.jsonl:1: label is 'good', but must be one of correct"),
        ([GOOD.replace("<answer>because</answer>", "because")], "anchors.jsonl:1: answer holds none in a form"),
        ([GOOD.replace('"id"', '"name"')], "anchors.jsonl:1: 'name' is unknown"),
    ],
)
def test_an_anchor_that_cannot_be_judged_is_refused_with_its_line(lines: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match="^" + re.escape(complaint)):
        anchors(*lines)


def graded(*answers: str | ProviderError) -> tuple[Grade | Failure, ScriptedProvider]:
    """Grade one answer with a judge that answers by the script, the last entry for ever."""

    def answer(_: Ask, times: int) -> Reply | ProviderError:
        said = answers[min(times, len(answers) - 1)]
        return Reply(said, "stop") if isinstance(said, str) else said

    provider, clock = ScriptedProvider(answer), FakeClock(datetime(2027, 1, 1, 3, tzinfo=UTC))

    async def run() -> Grade | Failure:
        judge = open_judge(JudgePlan(CONFIG, (), ""), provider, retry=Retry(calls=2), clock=clock)
        backend: Any = None
        grading = Grading({"why": ITEM}, backend, rng=None, judge=judge)  # type: ignore[arg-type] # no program is run
        return await grading.grade(ASK, "<answer>because</answer>")

    return asyncio.run(run()), provider


def test_an_opinion_is_a_grade_and_its_judge_never_learns_the_arm() -> None:
    grade, provider = graded('{"label": "partial", "rationale": "half"}')
    assert isinstance(grade, Grade)
    assert (grade.score, grade.grader, grade.detail) == (0.5, "judge@1", "partial: 'half'")
    (asked,) = provider.asked
    assert (asked.arm, "tracked" in asked.system + asked.prompt) == ("judge", False)
    assert "<answer>\nbecause\n</answer>" in asked.prompt


@pytest.mark.parametrize(
    ("answers", "calls", "detail"),
    [
        (["good!", "fine!"], 2, "the judge: its answer is not of the asked form, 2 times"),
        ([""], 2, "the judge: empty, 2 times"),
        ([ProviderError("timeout", "slow")], 2, "the judge: timeout: slow"),
        ([ProviderError("auth", "no key")], 1, "the judge: auth: no key"),
    ],
)
def test_a_judge_that_says_nothing_is_a_failure_of_the_harness(
    answers: list[str | ProviderError], calls: int, detail: str
) -> None:
    failure, provider = graded(*answers)
    assert failure == Failure("grader_error", detail)
    assert isinstance(failure, Failure)
    assert failure.is_harness
    assert len(provider.asked) == calls


def test_an_answer_that_parses_the_second_time_counts() -> None:
    grade, provider = graded("good!", '{"label": "correct"}')
    assert isinstance(grade, Grade)
    assert (grade.score, len(provider.asked)) == (1.0, 2)


def test_a_judge_that_is_refused_is_not_asked_again() -> None:
    provider = ScriptedProvider(lambda *_: ProviderError("quota", "used up"))
    judge = open_judge(
        JudgePlan(CONFIG, (), ""), provider, retry=Retry(), clock=FakeClock(datetime(2027, 1, 1, tzinfo=UTC))
    )
    question = graders.Question("system", "prompt")

    async def twice() -> list[Any]:
        return [await judge.opinion(question, ASK) for _ in range(2)]

    first, second = asyncio.run(twice())
    assert (first.detail, second.detail) == (
        "the judge: quota: used up",
        "the judge: quota, so it is not asked again in this run",
    )
    assert len(provider.asked) == 1


def test_a_reply_without_an_answer_costs_no_opinion() -> None:
    judged = graders.grade(ITEM, "I cannot say.")
    assert (judged.score, judged.answered, graders.job(ITEM, "I cannot say.")) == (0.0, False, None)
    assert not needs_sandbox([ITEM])


def test_a_judge_is_asked_no_faster_than_its_rate_and_again_only_where_the_budget_covers_it() -> None:
    provider = ScriptedProvider(lambda *_: Reply("fine!", "stop"))
    config = replace(CONFIG, arm=replace(CONFIG.arm, requests_per_minute=2.0))
    clock = FakeClock(datetime(2027, 1, 1, 3, tzinfo=UTC))

    async def run() -> list[Any]:
        judge = open_judge(JudgePlan(config, (), ""), provider, retry=Retry(), clock=clock)
        judge.lane.spare = Spare(1, "calls_per_day is 3")
        return [await judge.opinion(graders.Question("", "Is it right?"), ASK) for _ in range(2)]

    _, second = asyncio.run(run())
    assert clock.slept == [30.0, 30.0]
    said = "the judge: its answer is not of the asked form; not asked again: the budget's calls_per_day is 3"
    assert second == Failure("grader_error", said)
