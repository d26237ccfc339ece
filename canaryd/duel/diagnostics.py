"""How far the judges can be trusted: position, agreement, length and labels; nothing here decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from canaryd.duel.model import LABELS, SIDES, Judged, Question, Side
from canaryd.duel.outcome import JudgedQuestion, Outcome
from canaryd.records import JsonValue
from canaryd.stats.duel import cohens_kappa, wilson_interval
from canaryd.stats.estimate import figure


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate over questions with its Wilson interval; `value` is None over no question."""

    value: float | None
    ci: tuple[float, float] | None
    questions: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return the rate as JSON."""
        bounds: list[JsonValue] | None = None if self.ci is None else [figure(self.ci[0]), figure(self.ci[1])]
        return {"value": figure(self.value), "ci": bounds, "questions": self.questions}


@dataclass(frozen=True, slots=True)
class JudgeFigures:
    """One judge: ties as it gave them, ties after the collapse, and how often the first position won.

    `tie_inflation` is the share of questions that are a tie only because the two orders disagree.
    """

    judge: str
    tie_rate: float | None
    collapsed_tie_rate: float | None
    tie_inflation: float | None
    first_position: Rate
    resolved_models: tuple[str, ...]
    cost_usd: float | None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "judge": self.judge,
            "tie_rate": figure(self.tie_rate),
            "collapsed_tie_rate": figure(self.collapsed_tie_rate),
            "tie_inflation": figure(self.tie_inflation),
            "first_position": self.first_position.to_json(),
            "resolved_models": list(self.resolved_models),
            "cost_usd": figure(self.cost_usd),
        }


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """The judges, their agreement, length bias, labels by substrate and judge, and what the fixture expected."""

    judges: tuple[JudgeFigures, ...]
    kappa: float | None
    agreement: float | None
    longer_wins: Rate
    labels: Mapping[Side, Mapping[str, Mapping[str, int]]]
    expected_labels: Mapping[Side, Rate]
    expected_documents: Mapping[Side, Rate]
    disagreeing_families: tuple[str, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "judges": [judge.to_json() for judge in self.judges],
            "kappa": figure(self.kappa),
            "agreement": figure(self.agreement),
            "longer_wins": self.longer_wins.to_json(),
            "labels": {
                side: {judge: {**counts} for judge, counts in by_judge.items()}
                for side, by_judge in self.labels.items()
            },
            "expected_labels": {side: rate.to_json() for side, rate in self.expected_labels.items()},
            "expected_documents": {side: rate.to_json() for side, rate in self.expected_documents.items()},
            "disagreeing_families": list(self.disagreeing_families),
        }


def diagnose(outcome: Outcome, *, judges: Sequence[str], confidence: float) -> Diagnostics:
    """Return the diagnostics of the judged questions."""
    judged = outcome.judged
    pairs = [tuple(one.by_judge[judge] for judge in judges) for one in judged]
    return Diagnostics(
        judges=tuple(_judge(judge, judged, confidence=confidence) for judge in judges),
        kappa=cohens_kappa([(first, second) for first, second in pairs]),
        agreement=_share(first == second for first, second in pairs),
        longer_wins=_longer_wins(judged, confidence=confidence),
        labels={side: {judge: _labels(judged, judge, side=side) for judge in judges} for side in SIDES},
        expected_labels={side: _expected_labels(judged, side, confidence=confidence) for side in SIDES},
        expected_documents={side: _expected_documents(judged, side, confidence=confidence) for side in SIDES},
        disagreeing_families=_disagreeing(outcome),
    )


def _judge(judge: str, judged: Sequence[JudgedQuestion], *, confidence: float) -> JudgeFigures:
    by_question = [[each for each in one.judgements if each.judge == judge] for one in judged]
    records = [each for own in by_question for each in own]
    costs = [each.cost_usd_estimate for each in records if each.cost_usd_estimate is not None]
    swapped = [len({each.winner for each in own}) > 1 for own in by_question]
    return JudgeFigures(
        judge=judge,
        tie_rate=_share(each.winner == "tie" for each in records),
        collapsed_tie_rate=_share(one.by_judge[judge] == "tie" for one in judged),
        tie_inflation=_share(swapped),
        first_position=_mean_rate([_first_share(own) for own in by_question], confidence=confidence),
        resolved_models=tuple(sorted({each.resolved_model for each in records if each.resolved_model})),
        cost_usd=sum(costs) if costs else None,
    )


def _first_share(own: Sequence[Judged]) -> float | None:
    """Return the share of first-position wins among one judge's decided answers to one question."""
    return _share((each.winner == "a") == (each.ordering == "a_first") for each in own if each.winner != "tie")


def _longer_wins(judged: Sequence[JudgedQuestion], *, confidence: float) -> Rate:
    longer: list[float | None] = []
    for one in judged:
        retrievals = one.judgements[0].retrievals
        if one.winner != "tie" and len(retrievals.a) != len(retrievals.b):
            longer.append(float((one.winner == "a") == (len(retrievals.a) > len(retrievals.b))))
    return _mean_rate(longer, confidence=confidence)


def _labels(judged: Sequence[JudgedQuestion], judge: str, *, side: Side) -> dict[str, int]:
    found = [_label(each, side) for one in judged for each in one.judgements if each.judge == judge]
    return {label: found.count(label) for label in LABELS}


def _expected_labels(judged: Sequence[JudgedQuestion], side: Side, *, confidence: float) -> Rate:
    shares = [
        _share(_label(each, side) == one.question.expected_label for each in one.judgements)
        for one in judged
        if one.question.expected_label
    ]
    return _mean_rate(shares, confidence=confidence)


def _expected_documents(judged: Sequence[JudgedQuestion], side: Side, *, confidence: float) -> Rate:
    found = [_holds_document(one.question, one.judgements[0], side=side) for one in judged]
    return _mean_rate(found, confidence=confidence)


def _holds_document(question: Question, judgement: Judged, *, side: Side) -> float | None:
    if question.expected_doc_id is None:
        return None
    text = judgement.retrievals.a if side == "a" else judgement.retrievals.b
    return float(question.expected_doc_id in text)


def _disagreeing(outcome: Outcome) -> tuple[str, ...]:
    """Return the families whose own order is the opposite of the weighted one."""
    gap = outcome.gap.gap
    if not gap:
        return ()
    return tuple(family.name for family in outcome.families if (family.wins_a - family.wins_b) * gap < 0)


def _label(one: Judged, side: Side) -> str:
    return one.label_a if side == "a" else one.label_b


def _share(values: Iterable[bool]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None


def _mean_rate(values: Iterable[float | None], *, confidence: float) -> Rate:
    known = [value for value in values if value is not None]
    if not known:
        return Rate(None, None, 0)
    mean = sum(known) / len(known)
    return Rate(mean, wilson_interval(mean, len(known), confidence=confidence), len(known))
