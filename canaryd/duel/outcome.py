"""From recorded judgements to the verdict: collapse, aggregates, fabrications and the registered threshold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from canaryd.duel.model import ORDERINGS, SIDES, Entry, Judged, Question, Side, SubstrateFault, Thresholds, Winner
from canaryd.records import JsonValue
from canaryd.stats.duel import BootstrapGap, FamilyOutcomes, WeightedGap, bootstrap_gap, duel_seed, weighted_gap
from canaryd.stats.estimate import figure, reaches

Verdict: TypeAlias = Literal["pass", "no_difference", "no_verdict"]
FabricationState: TypeAlias = Literal["none", "too_few_to_say", "ratio", "infinite"]

_WORTH: Mapping[Winner, int] = {"a": 1, "b": -1, "tie": 0}


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """One question with all its judgements: each judge's collapsed winner, and the question's own."""

    question: Question
    judgements: tuple[Judged, ...]
    by_judge: Mapping[str, Winner]
    winner: Winner


@dataclass(frozen=True, slots=True)
class UnjudgedQuestion:
    """A question that counts nowhere, and why."""

    id: str
    family: str
    reason: str


@dataclass(frozen=True, slots=True)
class FamilyRates:
    """One family: how many questions, and how many each substrate won."""

    name: str
    weight: float
    questions: int
    wins_a: int
    wins_b: int

    def rate(self, side: Side) -> float | None:
        """Return wins / questions of a substrate; None where no question was judged."""
        return (self.wins_a if side == "a" else self.wins_b) / self.questions if self.questions else None


@dataclass(frozen=True, slots=True)
class Scores:
    """Both aggregates of one substrate; None where a family has no judged question."""

    uniform: float | None
    weighted: float | None


@dataclass(frozen=True, slots=True)
class Fabrications:
    """Questions (and records) whose retrieval was labelled hallucinated, and the larger count over the smaller."""

    questions: tuple[int, int]
    records: tuple[int, int]
    state: FabricationState
    ratio: float | None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the counts as JSON; an infinite ratio is its state, never a number."""
        return {
            "questions": {"a": self.questions[0], "b": self.questions[1]},
            "records": {"a": self.records[0], "b": self.records[1]},
            "state": self.state,
            "ratio": figure(self.ratio),
        }


@dataclass(frozen=True, slots=True)
class Fired:
    """The three clauses of the threshold, each with whether it fired."""

    gap: bool
    fabrications: bool
    interval: bool

    def __bool__(self) -> bool:
        return self.gap or self.fabrications or self.interval


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a duel came to; `reasons` say why there is no verdict."""

    verdict: Verdict
    reasons: tuple[str, ...]
    judged: tuple[JudgedQuestion, ...]
    unjudged: tuple[UnjudgedQuestion, ...]
    pending: tuple[str, ...]
    families: tuple[FamilyRates, ...]
    scores: tuple[Scores, Scores]
    gap: WeightedGap
    bootstrap: BootstrapGap | None
    fabrications: Fabrications
    fired: Fired

    @property
    def unjudged_share(self) -> float:
        """Unjudged questions over all that are not pending."""
        ended = len(self.judged) + len(self.unjudged)
        return len(self.unjudged) / ended if ended else 0.0


def collapse_orders(first: Winner, second: Winner) -> Winner:
    """Return one judge's winner: a substrate only if it won in both orders.

    >>> collapse_orders("a", "a"), collapse_orders("a", "b"), collapse_orders("a", "tie")
    ('a', 'tie', 'tie')
    """
    return first if first == second else "tie"


def collapse_judges(winners: Iterable[Winner]) -> Winner:
    """Return the question's winner: the judges' common one, else a tie.

    >>> collapse_judges(["b", "b"]), collapse_judges(["a", "tie"])
    ('b', 'tie')
    """
    named = set(winners)
    return named.pop() if len(named) == 1 else "tie"


def collapse(questions: Sequence[Question], entries: Iterable[Entry], *, judges: Sequence[str]) -> Collapsed:
    """Return the questions by what became of them: judged, unjudged or pending."""
    by_question: dict[str, list[Entry]] = {}
    for entry in entries:
        by_question.setdefault(entry.question_id, []).append(entry)
    collapsed = Collapsed([], [], [])
    for question in questions:
        found = by_question.get(question.id, [])
        judgements = [entry for entry in found if isinstance(entry, Judged)]
        reasons = [_why(entry) for entry in found if not isinstance(entry, Judged)]
        if reasons:
            collapsed.unjudged.append(UnjudgedQuestion(question.id, question.family, "; ".join(dict.fromkeys(reasons))))
        elif len(judgements) < len(judges) * len(ORDERINGS):
            collapsed.pending.append(question.id)
        else:
            collapsed.judged.append(_judged(question, judgements, judges=judges))
    return collapsed


@dataclass(frozen=True, slots=True)
class Collapsed:
    """The questions of a duel by what became of them."""

    judged: list[JudgedQuestion]
    unjudged: list[UnjudgedQuestion]
    pending: list[str]


def decide(
    collapsed: Collapsed,
    entries: Iterable[Entry],
    *,
    weights: Mapping[str, float],
    thresholds: Thresholds,
    run_ids: Sequence[str],
) -> Outcome:
    """Return the outcome of a duel against its registered thresholds; `run_ids` seed the bootstrap."""
    families = [_rates(name, weight, judged=collapsed.judged) for name, weight in sorted(weights.items())]
    outcomes = [
        FamilyOutcomes(
            name, weight, tuple(_WORTH[one.winner] for one in collapsed.judged if one.question.family == name)
        )
        for name, weight in sorted(weights.items())
    ]
    gap = weighted_gap(outcomes, confidence=thresholds.confidence)
    found = fabrications(entries, against_zero=thresholds.min_fabrications_against_zero)
    fired = Fired(
        gap=gap.gap is not None and reaches(abs(gap.gap), thresholds.min_gap),
        fabrications=found.state == "infinite"
        or (found.ratio is not None and reaches(found.ratio, thresholds.min_fabrication_ratio)),
        interval=gap.excludes_zero,
    )
    reasons = _reasons(collapsed, gap, max_unjudged_share=thresholds.max_unjudged_share)
    verdict: Verdict = "no_verdict" if reasons else "pass" if fired else "no_difference"
    return Outcome(
        verdict=verdict,
        reasons=reasons,
        judged=tuple(collapsed.judged),
        unjudged=tuple(collapsed.unjudged),
        pending=tuple(collapsed.pending),
        families=tuple(families),
        scores=(_scores(families, "a"), _scores(families, "b")),
        gap=gap,
        bootstrap=bootstrap_gap(
            outcomes, confidence=thresholds.confidence, draws=thresholds.bootstrap_draws, seed=duel_seed(run_ids)
        ),
        fabrications=found,
        fired=fired,
    )


def fabrications(entries: Iterable[Entry], *, against_zero: int) -> Fabrications:
    """Return the fabrication counts; against a zero, only `against_zero` and more on the other side say anything."""
    judged = [entry for entry in entries if isinstance(entry, Judged)]
    records = {side: [one.question_id for one in judged if _label(one, side) == "hallucinated"] for side in SIDES}
    counts = len(set(records["a"])), len(set(records["b"]))
    fewer, more = sorted(counts)
    state: FabricationState
    if more == 0:
        state, ratio = "none", None
    elif fewer == 0:
        state, ratio = ("infinite" if more >= against_zero else "too_few_to_say"), None
    else:
        state, ratio = "ratio", more / fewer
    return Fabrications(counts, (len(records["a"]), len(records["b"])), state, ratio)


def _why(entry: Entry) -> str:
    if isinstance(entry, SubstrateFault):
        return f"substrate {entry.substrate_id} failed: {entry.reason}"
    assert not isinstance(entry, Judged)
    return f"{entry.judge} {entry.ordering}: {entry.reason}"


def _judged(question: Question, judgements: Sequence[Judged], *, judges: Sequence[str]) -> JudgedQuestion:
    by_judge = {}
    for judge in judges:
        by_order = {one.ordering: one.winner for one in judgements if one.judge == judge}
        by_judge[judge] = collapse_orders(by_order["a_first"], by_order["b_first"])
    return JudgedQuestion(question, tuple(judgements), by_judge, collapse_judges(by_judge.values()))


def _rates(name: str, weight: float, *, judged: Iterable[JudgedQuestion]) -> FamilyRates:
    winners = [one.winner for one in judged if one.question.family == name]
    return FamilyRates(name, weight, len(winners), winners.count("a"), winners.count("b"))


def _scores(families: Sequence[FamilyRates], side: Side) -> Scores:
    rates = [(family.weight, family.rate(side)) for family in families]
    known = [(weight, rate) for weight, rate in rates if rate is not None]
    if len(known) < len(rates):
        return Scores(None, None)
    total = math.fsum(weight for weight, _ in known)
    return Scores(
        math.fsum(rate for _, rate in known) / len(known), math.fsum(weight * rate for weight, rate in known) / total
    )


def _reasons(collapsed: Collapsed, gap: WeightedGap, *, max_unjudged_share: float) -> tuple[str, ...]:
    reasons = []
    ended = len(collapsed.judged) + len(collapsed.unjudged)
    if collapsed.pending:
        reasons.append("not_finished")
    if ended and len(collapsed.unjudged) / ended > max_unjudged_share:
        reasons.append("too_many_unjudged")
    if gap.status == "empty_family" and not collapsed.pending:
        reasons.append("empty_family")
    return tuple(reasons)


def _label(one: Judged, side: Side) -> str:
    return one.label_a if side == "a" else one.label_b
