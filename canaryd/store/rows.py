"""What the store takes (dataclasses) and gives (named tuples) beside the nouns of `records`.

Python makes a named tuple's class in a sixth of a frozen dataclass's time, and `canaryd status` makes them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, NamedTuple

from canaryd.records import Arm, Failure, Grade, Item, JsonValue, ResolvedStanding, Role, SampleKey, StopKind, Verdict


@dataclass(frozen=True, slots=True)
class PanelFiles:
    """A frozen panel as its files' bytes, under its digest."""

    digest: str
    name: str
    version: str
    content: bytes
    system: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """All that registering a series stores; `registration` is the file's bytes, day 1 is `start_date`.

    `judged_measured` says whether what a judge grades enters the estimates, `imported_at` marks a series that was not
    measured here.
    """

    series: str
    registered_at: datetime
    start_date: date
    seed: int
    registration: bytes
    registration_digest: str
    panel: PanelFiles
    items: Sequence[Item]
    arms: Sequence[Arm]
    simulation: JsonValue = None
    judged_measured: bool = False
    imported_at: datetime | None = None


class Series(NamedTuple):
    """One registered series; `imported_at` is None unless it was measured elsewhere."""

    name: str
    registered_at: datetime
    start_date: date
    seed: int
    panel_digest: str
    registration_digest: str
    simulation: JsonValue
    imported_at: datetime | None = None


class StoredArm(NamedTuple):
    """One arm of a series as it was registered; `config` is its settings without any key."""

    name: str
    role: Role
    provider: str
    model: str
    config: Mapping[str, JsonValue]


class PanelItem(NamedTuple):
    """One item of a stored panel without its texts, in the order of the file; `target_label` is a textual target."""

    item_id: str
    ordinal: int
    family: str | None
    cluster: str
    sentinel: bool
    replicates: int
    target_label: str | None


class AlreadyClaimed(NamedTuple):
    """A claim that changed nothing: the run of this arm, slot and attempt had been started before."""

    series: str
    arm: str
    slot_date: date
    attempt: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Invalid:
    """A note that one run or one sample (give exactly one) must not be analysed, and why."""

    reason: str
    detail: str
    at: datetime
    run_id: int | None = None
    sample_id: int | None = None


class StoredSample(NamedTuple):
    """One stored sample. `text` is None where there was no reply; `invalid_reason` is None for a valid sample."""

    sample_id: int
    run_id: int
    attempt: int
    key: SampleKey
    result: Grade | Failure
    asked_at: datetime
    ended_at: datetime
    calls: int
    stop: StopKind | None
    resolved_model: str | None
    standing: ResolvedStanding | None
    response_id: str | None
    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    text_digest: str | None
    system_fingerprint: str | None
    text: str | None
    invalid_reason: str | None


class Span(NamedTuple):
    """One arm over consecutive slot dates, both ends included."""

    series: str
    arm: str
    first: date
    last: date


class Cell(NamedTuple):
    """The `n` graded samples of one item on one day: the sum of a value over them, and of its square."""

    item_id: str
    slot_date: date
    n: int
    total: float
    total_sq: float


class SpanCounts(NamedTuple):
    """What became of the samples of a span, sentinels apart.

    `scored_items` counts, for each day that has any, the items with at least one score; `fingerprints` are those of
    the runs that the samples belong to.
    """

    scored: int
    harness_failures: Mapping[str, int]
    outcome_failures: Mapping[str, int]
    scored_items: Mapping[date, int]
    fingerprints: frozenset[str]

    @property
    def attempted(self) -> int:
        """The number of samples, failures included."""
        return self.scored + sum(self.harness_failures.values()) + sum(self.outcome_failures.values())


class Tally(NamedTuple):
    """Samples of one arm or one run, sentinels counted; an unreported token count adds nothing.

    `score_total` is the sum of the `scored` samples' scores; `failures` counts each kind that occurred.
    """

    samples: int
    scored: int
    score_total: float
    passed: int
    failures: Mapping[str, int]
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int


class StoredVerdict(NamedTuple):
    """A verdict under its id."""

    verdict_id: int
    verdict: Verdict


#: Which items: those of the estimates, sentinels only, judged ones that stand beside the estimates only, or all.
SentinelChoice = Literal["exclude", "only", "judged", "include"]
CellValue = Literal["score", "output_tokens", "log_output_tokens"]
