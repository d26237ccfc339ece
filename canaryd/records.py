"""The nouns of canaryd, frozen. One word per thing: columns, metric labels and headings use these names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Role: TypeAlias = Literal["tracked", "control", "replica"]

#: Nothing was measured, and asking again may measure: retried, every attempt counted.
TRANSPORT_FAILURES = frozenset({"rate_limited", "overloaded", "server_error", "timeout", "connection"})
#: The request itself is refused; on the first item the run ends as `config_error` after one call.
CONFIG_FAILURES = frozenset({"auth", "not_found", "bad_request", "quota"})
#: Failures of the harness: nothing was measured. They make up the error rate.
HARNESS_FAILURES = (
    TRANSPORT_FAILURES
    | CONFIG_FAILURES
    | frozenset({"replayed", "harness_retried", "served_other", "config_mismatch"})
    | frozenset({"grader_error", "sandbox_error", "internal"})
)
#: The model answered, but gave nothing to grade: final, never retried, excluded pairwise, a stream of their own.
OUTCOME_FAILURES = frozenset({"refusal", "content_filtered", "truncated", "empty", "malformed"})
FAILURE_KINDS = HARNESS_FAILURES | OUTCOME_FAILURES

StopKind: TypeAlias = Literal["stop", "length", "refusal", "content_filter"]
RunOutcome: TypeAlias = Literal["completed", "incomplete", "config_error", "refused", "missed", "abandoned"]
VerdictKind: TypeAlias = Literal["change", "no_change_detected", "not_evaluable", "insufficient_data", "pending"]
ResolvedStanding: TypeAlias = Literal["reported", "echo", "not_reported"]


#: The grader whose grade is another model's opinion.
JUDGE_GRADER = "judge"


@dataclass(frozen=True, slots=True)
class GraderSpec:
    """Which grader an item names, and that grader's options."""

    type: str
    options: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """One question of a panel with its target and grader."""

    item_id: str
    family: str | None
    cluster: str
    prompt: str
    target: JsonValue
    grader: GraderSpec
    sentinel: bool = False
    replicates: int = 1

    @property
    def is_judged(self) -> bool:
        """Whether its grade is another model's opinion."""
        return self.grader.type == JUDGE_GRADER


@dataclass(frozen=True, slots=True)
class Arm:
    """One configured target with its role.

    `params` are the request parameters that are sent (only those that were set); `options` belong to the provider
    alone (the wire API, a URL template); neither holds a key.
    """

    name: str
    role: Role
    provider: str
    model: str
    base_url: str | None = None
    credential: str | None = None
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    timeout_s: float = 60.0
    concurrency: int = 4
    requests_per_minute: float | None = None
    expect_resolved: str | None = None
    redact: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to one arm on one slot date."""

    series: str
    arm: str
    slot_date: date
    item_id: str
    replicate: int
    system: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from a provider; a token count that was not reported is None, never 0.

    `output_tokens` includes reasoning tokens where the provider bills them as output. `system_fingerprint` names the
    backend where a provider tells it; it changes all the time, so it is recorded and nothing follows from it.
    """

    text: str
    stop: StopKind
    resolved_model: str | None = None
    response_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    standing: ResolvedStanding = "not_reported"
    system_fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Grade:
    """A grader's judgement of one reply: score in [0, 1]."""

    score: float
    answered: bool
    passed: bool
    detail: str = ""
    grader: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A sample that is not a measurement: its kind and a redacted sentence."""

    kind: str
    detail: str = ""

    @property
    def is_harness(self) -> bool:
        """Whether nothing was measured (and the failure counts in the error rate)."""
        return self.kind in HARNESS_FAILURES


@dataclass(frozen=True, slots=True)
class SampleKey:
    """The identity of a sample."""

    series: str
    arm: str
    slot_date: date
    item_id: str
    replicate: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One reply with its grade, or one failure; never both. `calls` counts the provider calls it took."""

    key: SampleKey
    result: Grade | Failure
    reply: Reply | None
    asked_at: datetime
    ended_at: datetime
    calls: int = 1


@dataclass(frozen=True, slots=True)
class RunStart:
    """The claim of one arm's run in a slot; inserting it is the claim.

    `fingerprint` is None for a slot that nobody ran, whose harness is not known.
    """

    series: str
    arm: str
    slot_date: date
    attempt: int
    started_at: datetime
    due_at: datetime
    panel_digest: str
    registration_digest: str
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a claimed run ended."""

    ended_at: datetime
    outcome: RunOutcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One pass of one arm over its items for a slot: its start, and its end once there is one."""

    run_id: int
    start: RunStart
    end: RunEnd | None


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive slot dates, both ends included; index 0 is the baseline."""

    index: int
    first: date
    last: date


AlarmState: TypeAlias = Literal[
    "warming_up",
    "ok",
    "regression",
    "improvement",
    "platform_change",
    "unattributed_regression",
    "unattributed_improvement",
    "not_evaluable",
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision of one window of one series, with every clause's outcome and figure in `clauses`.

    Immutable once stored: a later re-decision is a new verdict that names the one it supersedes.
    """

    series: str
    epoch: int
    window_index: int
    kind: VerdictKind
    direction: Literal["down", "up"] | None
    attribution: Literal["model", "platform", "unattributed"] | None
    reasons: tuple[str, ...]
    decided_at: datetime
    panel_digest: str
    registration_digest: str
    clauses: Mapping[str, JsonValue]
    supersedes: int | None = None


@dataclass(frozen=True, slots=True)
class Alarm:
    """A transition of a series' alarm state; the latest one is the current state."""

    series: str
    state: AlarmState
    since: datetime
    verdict_id: int | None


@dataclass(frozen=True, slots=True)
class EarlyWarningDay:
    """One step of one early-warning stream: the capital after the day, and the most likely first changed day."""

    series: str
    stream: Literal["score", "tokens", "difference"]
    segment: int
    slot_date: date
    rank: int
    capital: float
    threshold: float
    alarm: bool
    onset: date | None
