"""The nouns of a duel, frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Winner: TypeAlias = Literal["a", "b", "tie"]
Side: TypeAlias = Literal["a", "b"]
Ordering: TypeAlias = Literal["a_first", "b_first"]
SubstrateKind: TypeAlias = Literal["http", "command", "python"]

LABELS = ("correct", "partial", "incorrect", "abstained", "hallucinated")
WINNERS: tuple[Winner, ...] = ("a", "b", "tie")
ORDERINGS: tuple[Ordering, ...] = ("a_first", "b_first")
SIDES: tuple[Side, ...] = ("a", "b")


@dataclass(frozen=True, slots=True)
class Question:
    """One paired question of a fixture; what the fixture does not say is None."""

    id: str
    family: str
    query: str
    expected_label: str | None = None
    expected_doc_id: str | None = None
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class Retrievals:
    """What both substrates retrieved for a query, cut to the same length."""

    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A recorded pair of retrievals with the winner that people named; it is judged again with every duel."""

    id: str
    query: str
    retrievals: Retrievals
    winner: Winner


@dataclass(frozen=True, slots=True)
class SubstrateConfig:
    """One thing that turns a query into text: `target` is a URL, a command line or `package.module:function`."""

    id: str
    kind: SubstrateKind
    target: tuple[str, ...]
    timeout_s: float
    query_field: str = "query"
    text_path: str = "text"
    credential: str | None = None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When the substrates count as different; shares and gaps are fractions.

    A fabrication ratio with a zero on one side is infinite only when the other has `min_fabrications_against_zero`.
    """

    min_gap: float
    min_fabrication_ratio: float
    min_fabrications_against_zero: int
    confidence: float
    max_unjudged_share: float
    bootstrap_draws: int
    max_anchors_moved: int


@dataclass(frozen=True, slots=True)
class Judged:
    """One judgement as it is recorded; `winner` and labels are in terms of the substrates, never of the position."""

    question_id: str
    family: str
    judge: str
    ordering: Ordering
    substrate_a_id: str
    substrate_b_id: str
    retrievals: Retrievals
    winner: Winner
    label_a: str
    label_b: str
    rationale: str
    elapsed_ms: int
    cost_usd_estimate: float | None = None
    resolved_model: str | None = None


@dataclass(frozen=True, slots=True)
class Unjudged:
    """One (question, judge, order) whose answer could not be parsed twice: never a tie."""

    question_id: str
    family: str
    judge: str
    ordering: Ordering
    substrate_a_id: str
    substrate_b_id: str
    retrievals: Retrievals
    reason: str


@dataclass(frozen=True, slots=True)
class SubstrateFault:
    """A substrate that failed on a query: an error, not an abstention."""

    question_id: str
    family: str
    side: Side
    substrate_id: str
    reason: str


Entry: TypeAlias = Judged | Unjudged | SubstrateFault
