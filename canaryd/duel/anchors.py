"""Judges as instruments: anchors tell a judge that moved from a substrate that moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from canaryd.duel.model import Anchor, Entry, Judged, Winner
from canaryd.duel.outcome import Outcome, collapse_orders
from canaryd.judging import agreeing, moved_anchors
from canaryd.records import JsonValue
from canaryd.stats.duel import FamilyOutcomes, WeightedGap, weighted_gap
from canaryd.stats.estimate import figure

Moved: TypeAlias = Literal["none", "substrate", "judge", "unknown"]

_WORTH: Mapping[Winner, int] = {"a": 1, "b": -1, "tie": 0}


@dataclass(frozen=True, slots=True)
class AnchorFigures:
    """One judge on the anchors: its collapsed verdicts by anchor, and how many agree with people's."""

    judge: str
    verdicts: Mapping[str, Winner]
    agreeing: int
    anchors: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        verdicts: dict[str, JsonValue] = {**self.verdicts}
        share = self.agreeing / len(self.verdicts) if self.verdicts else None
        return {
            "judge": self.judge,
            "anchors": self.anchors,
            "judged": len(self.verdicts),
            "agreeing": self.agreeing,
            "agreement": figure(share),
            "verdicts": verdicts,
        }


@dataclass(frozen=True, slots=True)
class Movement:
    """A duel against an earlier one: what moved, and by which evidence.

    `shift` is the change of the weighted gap over the questions that both judged. `banner` must be said before any
    number; it is None where the judges are configured alike.
    """

    moved: Moved
    banner: str | None
    anchors_moved: Mapping[str, tuple[str, ...]]
    shift: WeightedGap
    questions: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "banner": self.banner,
            "moved": self.moved,
            "anchors_moved": {judge: list(ids) for judge, ids in self.anchors_moved.items()},
            "shift": self.shift.to_json(),
            "questions": self.questions,
        }


def anchor_figures(
    anchors: Sequence[Anchor], entries: Iterable[Entry], *, judges: Sequence[str]
) -> tuple[AnchorFigures, ...]:
    """Return how each judge judged the anchors; an anchor without both orders has no verdict."""
    judged = [entry for entry in entries if isinstance(entry, Judged)]
    return tuple(_figures(judge, anchors, judged=judged) for judge in judges)


def _figures(judge: str, anchors: Sequence[Anchor], *, judged: Sequence[Judged]) -> AnchorFigures:
    verdicts: dict[str, Winner] = {}
    for anchor in anchors:
        by_order = {one.ordering: one.winner for one in judged if (one.judge, one.question_id) == (judge, anchor.id)}
        if len(by_order) == 2:
            verdicts[anchor.id] = collapse_orders(by_order["a_first"], by_order["b_first"])
    people: dict[str, str] = {anchor.id: anchor.winner for anchor in anchors}
    return AnchorFigures(judge, verdicts, agreeing(verdicts, people), len(anchors))


@dataclass(frozen=True, slots=True)
class Seen:
    """What the comparison reads of one duel: outcome, judges with their recorded configuration, anchors."""

    outcome: Outcome
    judges: Mapping[str, JsonValue]
    anchors: tuple[AnchorFigures, ...]


def movement(earlier: Seen, later: Seen, *, weights: Mapping[str, float], max_anchors_moved: int) -> Movement:
    """Return what moved between two duels.

    `judge` when more than `max_anchors_moved` anchors of one judge got another verdict; else `substrate` when the
    interval of the shift excludes 0; `unknown` when the duels share no judged anchor or no interval.
    """
    banner = _banner(earlier.judges, later.judges)
    changed = _anchors_moved(earlier.anchors, later.anchors)
    shift, questions = _shift(earlier.outcome, later.outcome, weights=weights)
    moved: Moved
    if any(len(ids) > max_anchors_moved for ids in changed.values()):
        moved = "judge"
    elif not changed or shift.status not in ("ok", "zero_variance"):
        moved = "unknown"
    else:
        moved = "substrate" if shift.excludes_zero or (shift.status == "zero_variance" and shift.gap) else "none"
    return Movement(moved, banner, changed, shift, questions)


def _banner(earlier: Mapping[str, JsonValue], later: Mapping[str, JsonValue]) -> str | None:
    if dict(earlier) == dict(later):
        return None
    gone, new = sorted(earlier.keys() - later.keys()), sorted(later.keys() - earlier.keys())
    if not gone and not new:
        what = f"another configuration of {', '.join(name for name in sorted(later) if earlier[name] != later[name])}"
    else:
        what = f"then {', '.join(sorted(earlier))}; now {', '.join(sorted(later))}"
    return f"reduced comparability: the judges differ ({what})"


def _anchors_moved(earlier: Sequence[AnchorFigures], later: Sequence[AnchorFigures]) -> dict[str, tuple[str, ...]]:
    before = {one.judge: one.verdicts for one in earlier}
    moved = {}
    for one in later:
        both = before.get(one.judge, {}).keys() & one.verdicts.keys()
        if both:
            moved[one.judge] = moved_anchors(before[one.judge], one.verdicts)
    return moved


def _shift(earlier: Outcome, later: Outcome, *, weights: Mapping[str, float]) -> tuple[WeightedGap, int]:
    before = {one.question.id: _WORTH[one.winner] for one in earlier.judged}
    steps: dict[str, list[float]] = {name: [] for name in weights}
    for one in later.judged:
        if one.question.id in before and one.question.family in steps:
            steps[one.question.family].append(_WORTH[one.winner] - before[one.question.id])
    families = [FamilyOutcomes(name, weights[name], tuple(found)) for name, found in sorted(steps.items())]
    return weighted_gap(families, confidence=later.gap.confidence), sum(map(len, steps.values()))
