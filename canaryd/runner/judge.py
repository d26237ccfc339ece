"""The judge of a panel's answers at work: held to its anchors before the items of a slot, then asked item by item."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from canaryd import graders
from canaryd.config import PanelJudge, Retry, SeriesConfig
from canaryd.errors import ConfigError
from canaryd.files import read_bytes
from canaryd.graders.judge import WORTH, label_of
from canaryd.hashing import digest
from canaryd.jsonlines import LineError, new_id, parse_lines, refuse_unknown, require_clean, text_of
from canaryd.judging import ASKED_AT_MOST, JudgeConfig, Reading
from canaryd.panel import Panel
from canaryd.providers.base import Provider, failure_kind
from canaryd.records import CONFIG_FAILURES, Ask, Failure, Item
from canaryd.runner.clock import Clock
from canaryd.runner.execute import Lane, answered, turn

_ANCHOR_KEYS = ("id", "item", "answer", "label")


@dataclass(frozen=True, slots=True)
class Anchor:
    """A recorded answer to a judged item, with the label that people gave it."""

    id: str
    item: Item
    answer: str
    label: str


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """The judge of a series, its anchors, and the digest of their file."""

    config: JudgeConfig
    anchors: tuple[Anchor, ...]
    anchors_digest: str


def judge_plan(series: SeriesConfig, panel: Panel) -> JudgePlan | None:
    """Return the judge of a series, None where no item of its panel is judged.

    Raises:
        ConfigError: items are judged and no judge is named, or the other way round, or an anchor is refused.
    """
    judged = {item.item_id: item for item in panel.items if item.is_judged}
    if series.judge is None:
        if judged:
            raise ConfigError(
                f"series {series.name!r}: item {next(iter(judged))} of {panel.path} is graded by a judge, but the "
                "series names none; add [series.judge]"
            )
        return None
    if not judged:
        raise ConfigError(
            f"series {series.name!r}: names a judge, but no item of {panel.path} is graded by one; take [series.judge] "
            "away"
        )
    return _plan(series.judge, judged)


def _plan(judge: PanelJudge, judged: Mapping[str, Item]) -> JudgePlan:
    data = read_bytes(judge.anchors)
    return JudgePlan(judge.config, parse_anchors(data, judged, source=judge.anchors), digest(data))


def parse_anchors(data: bytes, judged: Mapping[str, Item], *, source: Path) -> tuple[Anchor, ...]:
    """Return the anchors of a file; `judged` are the items that they may answer.

    Raises:
        ConfigError: a line is refused, or there is no anchor; `file:line: sentence`.
    """
    seen: set[str] = set()

    def build(values: Mapping[str, Any]) -> Anchor:
        refuse_unknown(values, _ANCHOR_KEYS)
        name, item_id = new_id(values, seen), text_of(values, "item")
        if item_id not in judged:
            raise LineError(f"item is {item_id!r}, but the panel's judged items are {', '.join(judged)}")
        label = text_of(values, "label", allowed=tuple(WORTH))
        anchor = Anchor(name, judged[item_id], text_of(values, "answer"), label)
        if question_of(anchor) is None:
            raise LineError("answer holds none in a form that its item declares; write <answer>...</answer> around it")
        return anchor

    anchors, complaints = parse_lines(data, build, source=str(source))
    require_clean(complaints or ([] if anchors else [f"{source}: holds no anchor; write one JSON object on a line"]))
    return tuple(anchors)


def question_of(anchor: Anchor) -> graders.Question | None:
    """Return what a judge is asked about an anchor, as about any answer to its item."""
    job = graders.job(anchor.item, anchor.answer)
    return job if isinstance(job, graders.Question) else None


@dataclass(slots=True)
class JudgeBench:
    """A judge while it is being asked. What it could not be asked, or did not say, is a failure and never a score."""

    lane: Lane
    retry: Retry
    clock: Clock
    resolved: set[str] = field(default_factory=set)
    _free: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.lane.arm.concurrency)

    async def opinion(self, question: graders.Question, ask: Ask) -> graders.Opinion | Failure:
        """Return what the judge says of an answer to `ask`; one that does not parse is asked once more."""
        judged = Ask(
            ask.series,
            self.lane.arm.name,
            ask.slot_date,
            ask.item_id,
            ask.replicate,
            system=question.system,
            prompt=question.prompt,
        )
        why = ""
        async with self._free:
            for times in range(ASKED_AT_MOST):
                if self.lane.config_error is not None:
                    return _failed(f"{self.lane.config_error.kind}, so it is not asked again in this run")
                if times and not self.lane.may_repeat():
                    return _failed(f"{why}; not asked again: {self.lane.unpaid}")
                # What has landed is graded, so only the judge's rate is waited for, and nothing stops its first call.
                await turn(judged, self.lane, clock=self.clock)
                reply, _ = await answered(judged, self.lane, retry=self.retry, clock=self.clock)
                if isinstance(reply, Failure):
                    if reply.kind in CONFIG_FAILURES:
                        self.lane.config_error = reply
                    return _failed(f"{reply.kind}: {reply.detail}")
                if reply.standing == "reported" and reply.resolved_model is not None:
                    self.resolved.add(reply.resolved_model)
                why = failure_kind(reply) or "its answer is not of the asked form"
                if failure_kind(reply) is None and label_of(reply.text) is not None:
                    return graders.Opinion(reply.text)
        return _failed(f"{why}, {ASKED_AT_MOST} times")

    async def probe(self, anchor: Anchor, like: Ask) -> Failure | None:
        """Ask about one anchor and return why no verdict came, or None."""
        question = question_of(anchor)
        opinion = await self.opinion(question, like) if question else None
        return opinion if isinstance(opinion, Failure) else None

    async def read(self, plan: JudgePlan, like: Ask, *, epoch: int) -> Reading:
        """Judge every anchor and return what was said; `like` is any ask of the slot."""
        said: dict[str, str] = {}

        async def one(anchor: Anchor, question: graders.Question) -> None:
            """Ask about one anchor and keep what is said."""
            asked = Ask(like.series, like.arm, like.slot_date, anchor.id, 0, system="", prompt="")
            opinion = await self.opinion(question, asked)
            label = None if isinstance(opinion, Failure) else label_of(opinion.text)
            if label is not None:
                said[anchor.id] = label

        async with asyncio.TaskGroup() as group:
            for anchor in plan.anchors:
                if question := question_of(anchor):
                    group.create_task(one(anchor, question))
        people = {anchor.id: anchor.label for anchor in plan.anchors}
        return Reading(
            like.slot_date,
            epoch,
            plan.config.identity,
            said=dict(sorted(said.items())),
            people=people,
            resolved=tuple(sorted(self.resolved)),
        )


def open_judge(plan: JudgePlan, provider: Provider, *, retry: Retry, clock: Clock) -> JudgeBench:
    """Return the judge of a plan, ready to be asked through its provider."""
    return JudgeBench(Lane(plan.config.arm, provider), retry, clock)


def judged(asks: Iterable[Ask], panel: Panel) -> list[Ask]:
    """Return those of some asks that need the judge."""
    items = {item.item_id for item in panel.items if item.is_judged}
    return [ask for ask in asks if ask.item_id in items]


def _failed(why: str) -> Failure:
    return Failure("grader_error", f"the judge: {why}")
