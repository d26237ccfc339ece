"""What every judge is, of retrievals in a duel or of answers to a panel: a named instrument that is held to anchors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, TypeAlias

from canaryd import checks
from canaryd.params import json_values, request_params
from canaryd.records import Arm, JsonValue
from canaryd.tables import Table

#: An answer that does not parse is asked once more.
ASKED_AT_MOST = 2

_FENCE = re.compile(r"\A```(?:json)?\s*\n(?P<body>.*)\n```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JudgeConfig:
    """One judge: the arm that asks it, its declared model family and version, and dated prices where there are any."""

    arm: Arm
    family: str
    version: str
    usd_per_million: Mapping[str, float] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """`provider:model:version`, by which records name the judge."""
        return f"{self.arm.provider}:{self.arm.model}:{self.version}"

    def configuration(self, rubric: str) -> dict[str, JsonValue]:
        """Return what makes it the instrument it is, and never a key; `rubric` is the digest of what it is told."""
        return {
            "family": self.family,
            "base_url": self.arm.base_url,
            "params": dict(self.arm.params),
            "options": dict(self.arm.options),
            "rubric": rubric,
        }


def judge_of(table: Table, *, name: str) -> JudgeConfig:
    """Return the judge that a table names; `name` is what its arm is called. The table is not closed.

    Raises:
        ConfigError: a key is missing, of the wrong type or out of range.
    """
    return JudgeConfig(
        arm=Arm(
            name=name,
            role="control",
            provider=table.take("provider", str, check=checks.filled),
            model=table.take("model", str, check=checks.filled),
            base_url=table.optional_url("base_url"),
            credential=table.optional("credential", str, check=checks.name),
            params=request_params(table.table("params")),
            options=json_values(table.table("options")),
            timeout_s=table.take("timeout_s", float, check=checks.between(0.1, 3600)),
            concurrency=table.take("concurrency", int, check=checks.between(1, 64)),
        ),
        family=table.take("family", str, check=checks.filled),
        version=table.take("version", str, check=checks.filled),
    )


def json_answer(text: str) -> Mapping[str, Any]:
    """Return the JSON object that a judge answered, empty where it is not one; a code fence around it is taken off.

    >>> json_answer('```json\\n{"winner": "tie"}\\n```'), json_answer("I like both.")
    ({'winner': 'tie'}, {})
    """
    stripped = text.strip()
    if fenced := _FENCE.match(stripped):
        stripped = fenced["body"].strip()
    try:
        answer: Any = json.loads(stripped)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def said_of(answer: Mapping[str, Any]) -> str:
    """Return the rationale of an answer as text that any file holds; a missing one is empty."""
    rationale = answer.get("rationale")
    return rationale.encode(errors="replace").decode() if isinstance(rationale, str) else ""


def agreeing(said: Mapping[str, str], people: Mapping[str, str]) -> int:
    """Return on how many anchors a judge says what people say.

    >>> agreeing({"a": "correct", "b": "partial"}, {"a": "correct", "b": "incorrect", "c": "correct"})
    1
    """
    return sum(people.get(anchor) == verdict for anchor, verdict in said.items())


def moved_anchors(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return the anchors that got another verdict than before, of those that were judged both times.

    >>> moved_anchors({"a": "correct", "b": "partial"}, {"a": "incorrect", "c": "correct"})
    ('a',)
    """
    return tuple(sorted(anchor for anchor in before.keys() & after.keys() if before[anchor] != after[anchor]))


JudgeState: TypeAlias = Literal["ok", "moved", "unjudged"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a judge judged its anchors in a slot: what it said of each, what people say, and which models answered.

    An anchor that it gave no readable verdict on is missing from `said`; `resolved` holds reported names alone.
    """

    slot_date: date
    epoch: int
    identity: str
    said: Mapping[str, str]
    people: Mapping[str, str]
    resolved: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every anchor got a verdict."""
        return self.said.keys() == self.people.keys()

    @property
    def agreeing(self) -> int:
        """On how many anchors it says what people say."""
        return agreeing(self.said, self.people)


@dataclass(frozen=True, slots=True)
class JudgeDay:
    """A judge in one slot, held against the first whole reading of the epoch (`reference`, None before there is one).

    `moved` are the anchors with another verdict than then; `rolled` are the models that answer now, where others did.
    """

    reading: Reading
    reference: Reading | None
    state: JudgeState
    moved: tuple[str, ...] = ()
    rolled: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What moved, in words; of a judge that stayed, how far it agrees with people."""
        now = self.reading
        agreed = f"it agrees with people on {now.agreeing} of {len(now.people)} anchors"
        if self.reference is None or not (self.moved or self.rolled):
            missing = len(now.people) - len(now.said)
            return f"{missing} of {len(now.people)} anchors could not be judged" if missing else agreed
        then = self.reference
        parts = []
        if self.rolled:
            parts.append(f"the model that answers rolled from {', '.join(then.resolved)} to {', '.join(self.rolled)}")
        if self.moved:
            parts.append(f"other verdicts than on {then.slot_date} on {', '.join(self.moved)}")
        return f"{'; '.join(parts)}; {agreed}, then on {then.agreeing}"


def judge_days(readings: Iterable[Reading], *, max_anchors_moved: int) -> tuple[JudgeDay, ...]:
    """Return the judge slot by slot: `moved` when more anchors than that changed, or another model answers.

    >>> said = [{"a": "correct"}, {"a": "correct"}, {"a": "incorrect"}, {}]
    >>> rows = [Reading(date(2027, 1, n), 1, "p:m:1", one, {"a": "correct"}) for n, one in enumerate(said, 1)]
    >>> [day.state for day in judge_days(rows, max_anchors_moved=0)]
    ['ok', 'ok', 'moved', 'unjudged']
    """
    references: dict[int, Reading] = {}
    days = []
    for reading in readings:
        if reading.is_whole:
            references.setdefault(reading.epoch, reading)
        days.append(_judge_day(reading, references.get(reading.epoch), max_anchors_moved=max_anchors_moved))
    return tuple(days)


def _judge_day(reading: Reading, reference: Reading | None, *, max_anchors_moved: int) -> JudgeDay:
    if reference is None:
        return JudgeDay(reading, None, "unjudged")
    moved = moved_anchors(reference.said, reading.said)
    is_other = reference.resolved and reading.resolved and reference.resolved != reading.resolved
    state: JudgeState = "ok" if reading.is_whole else "unjudged"
    if is_other or len(moved) > max_anchors_moved:
        state = "moved"
    return JudgeDay(reading, reference, state, moved, reading.resolved if is_other else ())


def turns(days: Iterable[JudgeDay]) -> tuple[JudgeDay, ...]:
    """Return the slots in which a judge was first seen to have moved."""
    before: JudgeState = "ok"
    found = []
    for day in days:
        if day.state == "moved" != before:
            found.append(day)
        before = day.state
    return tuple(found)
