"""What a report of a duel says: one model, from which text, Markdown, HTML and JSON are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from canaryd.duel.anchors import AnchorFigures, Movement, Seen, anchor_figures, movement
from canaryd.duel.diagnostics import Diagnostics, diagnose
from canaryd.duel.model import SIDES, Entry
from canaryd.duel.outcome import Outcome, collapse, decide
from canaryd.duel.pairing import calls_of, owed
from canaryd.duel.project import DuelProject, judge_configurations, read_record, require_registered
from canaryd.duel.registration import Duel
from canaryd.records import JsonValue
from canaryd.stats.estimate import figure

SCHEMA_VERSION = 1
EXIT_NO_VERDICT = 2


@dataclass(frozen=True, slots=True)
class DuelReport:
    """Everything that is shown of a duel; `movement` is None without an earlier duel to compare with."""

    duel: Duel
    headline: str
    outcome: Outcome
    diagnostics: Diagnostics
    anchors: tuple[AnchorFigures, ...]
    judges: dict[str, JsonValue]
    movement: Movement | None

    @property
    def exit_code(self) -> int:
        """0 where there is a verdict, whichever; 2 where there is none."""
        return EXIT_NO_VERDICT if self.outcome.verdict == "no_verdict" else 0

    def to_json(self) -> dict[str, JsonValue]:
        """Return the report as JSON; changes to this form only ever add keys."""
        outcome, plan = self.outcome, self.duel.plan
        return {
            "schema_version": SCHEMA_VERSION,
            "name": plan.name,
            "duel": self.duel.digest,
            "movement": self.movement.to_json() if self.movement else None,
            "headline": self.headline,
            "verdict": outcome.verdict,
            "exit_code": self.exit_code,
            "reasons": list(outcome.reasons),
            "fired": {
                "gap": outcome.fired.gap,
                "fabrications": outcome.fired.fabrications,
                "interval": outcome.fired.interval,
            },
            "questions": {
                "judged": len(outcome.judged),
                "unjudged": [{"id": one.id, "reason": one.reason} for one in outcome.unjudged],
                "unjudged_share": figure(outcome.unjudged_share),
                "pending": list(outcome.pending),
            },
            "substrates": {side: config.id for side, config in zip(SIDES, plan.substrates, strict=True)},
            "scores": {
                side: {"uniform": figure(scores.uniform), "weighted": figure(scores.weighted)}
                for side, scores in zip(SIDES, outcome.scores, strict=True)
            },
            "gap": outcome.gap.to_json(),
            "bootstrap": outcome.bootstrap.to_json() if outcome.bootstrap else None,
            "families": [
                {
                    "name": family.name,
                    "weight": family.weight,
                    "questions": family.questions,
                    "wins": {"a": family.wins_a, "b": family.wins_b},
                    "rates": {side: figure(family.rate(side)) for side in SIDES},
                }
                for family in outcome.families
            ],
            "fabrications": outcome.fabrications.to_json(),
            "diagnostics": self.diagnostics.to_json(),
            "anchors": [one.to_json() for one in self.anchors],
            "judges": self.judges,
            "winners": {one.question.id: one.winner for one in outcome.judged},
        }


def build_report(project: DuelProject, *, against: DuelProject | None = None) -> DuelReport:
    """Return the report of a registered duel from its records, compared with an earlier one where that is given.

    Raises:
        UsageError: a duel is not registered.
        MeasurementRefused: a file was edited after it was registered, or a record belongs to another duel.
        ConfigError: a file cannot be read as written.
    """
    duel = project.duel
    seen = _seen(project)
    return DuelReport(
        duel=duel,
        headline=headline_of(
            seen.outcome, names=[config.id for config in duel.plan.substrates], can_go_on=_can_go_on(project)
        ),
        outcome=seen.outcome,
        diagnostics=diagnose(
            seen.outcome,
            judges=[judge.identity for judge in duel.plan.judges],
            confidence=duel.plan.thresholds.confidence,
        ),
        anchors=seen.anchors,
        judges=judge_configurations(duel),
        movement=movement(
            _seen(against),
            seen,
            weights=duel.plan.weights,
            max_anchors_moved=duel.plan.thresholds.max_anchors_moved,
        )
        if against
        else None,
    )


def _seen(project: DuelProject) -> Seen:
    require_registered(project)
    duel = project.duel
    judges = [judge.identity for judge in duel.plan.judges]
    entries: Sequence[Entry] = read_record(project.record, duel=duel.digest)
    outcome = decide(
        collapse(duel.questions, entries, judges=judges),
        entries,
        weights=duel.plan.weights,
        thresholds=duel.plan.thresholds,
        run_ids=[duel.digest],
    )
    anchored = read_record(project.anchor_record, duel=duel.digest)
    return Seen(outcome, judge_configurations(duel), anchor_figures(duel.anchors, anchored, judges=judges))


def _can_go_on(project: DuelProject) -> bool:
    """Whether the budget still holds the calls that are owed, were every answer to parse."""
    duel = project.duel
    judges = [judge.identity for judge in duel.plan.judges]
    entries = read_record(project.record, duel=duel.digest)
    anchored = read_record(project.anchor_record, duel=duel.digest)
    needed = sum(len(one.turns) for one in owed(duel.questions, entries, judges=judges))
    return needed <= duel.plan.max_calls - sum(map(calls_of, [*entries, *anchored]))


def headline_of(outcome: Outcome, *, names: Sequence[str], can_go_on: bool = True) -> str:
    """Return the outcome in one sentence; a disagreement of both aggregates comes first."""
    if outcome.verdict == "no_verdict":
        return f"No verdict: {_why_not(outcome, can_go_on=can_go_on)}."
    verdict = f"{_difference(outcome, names)}."
    return f"{disagreement} {verdict}" if (disagreement := _disagreement(outcome, names)) else verdict


def _why_not(outcome: Outcome, *, can_go_on: bool) -> str:
    following = (
        "run the duel again to go on"
        if can_go_on
        else "budget.max_calls does not reach for them, so register a copy of the duel with a larger one"
    )
    ended = len(outcome.judged) + len(outcome.unjudged)
    said = {
        "not_finished": f"{len(outcome.pending)} questions are not judged yet; {following}",
        "too_many_unjudged": f"{len(outcome.unjudged)} of {ended} questions could not be judged",
        "empty_family": "a family has no judged question",
    }
    return "; ".join(said[reason] for reason in outcome.reasons)


def _difference(outcome: Outcome, names: Sequence[str]) -> str:
    gap = outcome.gap.gap or 0.0
    leads = f"{names[0] if gap > 0 else names[1]} leads by {abs(100 * gap):.1f} points" if gap else "neither leads"
    ci = outcome.gap.ci
    interval = (
        f" ({100 * outcome.gap.confidence:g} % CI of a minus b [{100 * ci[0]:+z.1f}, {100 * ci[1]:+z.1f}])"
        if ci
        else f" (no interval: {outcome.gap.status})"
    )
    if outcome.verdict == "no_difference":
        return f"No difference shown: weighted, {leads}{interval}"
    fired = outcome.fired
    clauses = {"the gap": fired.gap, "the fabrication ratio": fired.fabrications, "the interval": fired.interval}
    named = " and ".join(clause for clause, is_fired in clauses.items() if is_fired)
    return f"{names[0]} and {names[1]} differ, by {named}: weighted, {leads}{interval}"


def _disagreement(outcome: Outcome, names: Sequence[str]) -> str:
    (a, b), gap = outcome.scores, outcome.gap.gap
    if a.uniform is None or b.uniform is None or gap is None:
        return ""
    uniform = round(a.uniform - b.uniform, 12)
    if uniform * round(gap, 12) >= 0:
        return ""
    by_uniform, by_weight = (names if uniform > 0 else names[::-1])[:2]
    return f"Uniform and weighted scores disagree: {by_uniform} leads by uniform families, {by_weight} by the weights."
