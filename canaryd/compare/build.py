"""The comparison of two sides: the same estimates as those of a series, and what they amount to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from canaryd.compare.side import Side
from canaryd.errors import ConfigError
from canaryd.records import JsonValue
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import Estimate, TooFew, figure, reaches, t_critical
from canaryd.stats.localise import GroupDelta, group_deltas, shared_targets
from canaryd.stats.mcnemar import McNemar, mcnemar
from canaryd.stats.paired import PairedItems, pair_items, paired_delta
from canaryd.stats.params import HeadroomParams, TokenParams
from canaryd.stats.power import Headroom, headroom
from canaryd.stats.tokens import TokenCells, TokenChange, token_change

Unscored: TypeAlias = Literal["exclude", "wrong"]
Judgement: TypeAlias = Literal["changed", "no_change", "not_judged"]

SCHEMA_VERSION = 1
EXIT_CODES: Mapping[Judgement, int] = {"no_change": 0, "changed": 1, "not_judged": 2}


@dataclass(frozen=True, slots=True)
class CompareParams:
    """The numbers of a comparison; `tokens.estimate` holds those of the score as well.

    A change is at least `min_effect` (a fraction); with less than `min_item_share` of the items paired nothing is
    judged; `z_power` is the normal quantile of the power at which the MDE is given.
    """

    tokens: TokenParams
    min_effect: float
    min_item_share: float
    min_discordant: int
    z_power: float
    headroom: HeadroomParams


@dataclass(frozen=True, slots=True)
class SideCounts:
    """What one side held, and how many rows of sentinels and invalid rows were left out of it."""

    rows: int
    items: int
    unscored: int
    sentinels_excluded: int
    invalid_excluded: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return the counts as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Unpaired:
    """The items that do not pair: of one file only, or without a scored row on a side."""

    baseline_only: tuple[str, ...]
    current_only: tuple[str, ...]
    unscored: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.baseline_only) + len(self.current_only) + len(self.unscored)


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One group of paired items with its mean score on both sides."""

    baseline_mean: float
    current_mean: float
    change: GroupDelta

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        means: dict[str, JsonValue] = {
            "baseline_mean": figure(self.baseline_mean),
            "current_mean": figure(self.current_mean),
        }
        return {**self.change.to_json(), **means}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that is printed of a comparison; effects are fractions.

    `reasons` say why nothing could be judged. `mcnemar` is None, with its reason, where an item has several samples or
    partial credit; `tokens` is None where a side has none; `otherwise` is the estimate with unscored rows read the
    other way, None where every row has a score.
    """

    judgement: Judgement
    reasons: tuple[str, ...]
    unscored: Unscored
    sides: tuple[SideCounts, SideCounts]
    means: tuple[float, float] | None
    estimate: Estimate | TooFew
    mde: float | None
    min_effect: float
    mcnemar: McNemar | None
    mcnemar_reason: str | None
    tokens: TokenChange | None
    otherwise: Estimate | TooFew | None
    unpaired: Unpaired
    targets: tuple[GroupChange, ...]
    families: tuple[GroupChange, ...]
    headroom: Headroom | None

    @property
    def exit_code(self) -> int:
        """0 no change, 1 changed, 2 could not be judged."""
        return EXIT_CODES[self.judgement]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the comparison as JSON; changes to this form only ever add keys."""
        baseline, current = (side.to_json() for side in self.sides)
        return {
            "schema_version": SCHEMA_VERSION,
            "judgement": self.judgement,
            "exit_code": self.exit_code,
            "reasons": list(self.reasons),
            "unscored": self.unscored,
            "baseline": {**baseline, "mean": figure(self.means[0]) if self.means else None},
            "current": {**current, "mean": figure(self.means[1]) if self.means else None},
            "estimate": self.estimate.to_json(),
            "min_effect": self.min_effect,
            "mde": figure(self.mde),
            "mcnemar": {"reason": self.mcnemar_reason} if self.mcnemar is None else self.mcnemar.to_json(),
            "tokens": self.tokens.to_json() if self.tokens else None,
            "unscored_otherwise": self.otherwise.to_json() if self.otherwise else None,
            "unpaired": {
                "baseline_only": list(self.unpaired.baseline_only),
                "current_only": list(self.unpaired.current_only),
                "unscored": list(self.unpaired.unscored),
            },
            "targets": [group.to_json() for group in self.targets],
            "families": [group.to_json() for group in self.families],
            "headroom": self.headroom.to_json() if self.headroom else None,
        }


def compare(baseline: Side, current: Side, *, unscored: Unscored, params: CompareParams) -> Comparison:
    """Return the comparison of two sides; rows without a score are left out or counted as wrong.

    Raises:
        ConfigError: an item has another cluster, family or target on the other side.
    """
    clusters = _merged("cluster", baseline.clusters, other=current.clusters)
    families = _merged("family", baseline.families, other=current.families)
    targets = _merged("target", baseline.targets, other=current.targets)
    before, after = _scores(baseline, unscored), _scores(current, unscored)
    estimating = params.tokens.estimate
    paired = pair_items(before, after)
    estimate = paired_delta(before, after, clusters=clusters, params=estimating)
    share = len(paired.items) / len(baseline.items | current.items)
    judgement, reasons = _judge(estimate, share=share, params=params)
    test, why_not = _mcnemar(paired, min_discordant=params.min_discordant)

    def grouped(groups: Mapping[str, str]) -> tuple[GroupChange, ...]:
        members = {item: groups[item] for item in paired.items if item in groups}
        deltas = group_deltas(before, after, groups=members, clusters=clusters, params=estimating)
        return tuple(_group(paired, members, change=delta) for delta in deltas)

    return Comparison(
        judgement=judgement,
        reasons=reasons,
        unscored=unscored,
        sides=(_counts(baseline), _counts(current)),
        means=_means(paired) if paired.items else None,
        estimate=estimate,
        mde=_mde(estimate, z_power=params.z_power),
        min_effect=params.min_effect,
        mcnemar=test,
        mcnemar_reason=why_not,
        tokens=_tokens(baseline, current, clusters=clusters, params=params.tokens),
        otherwise=_otherwise(baseline, current, clusters=clusters, unscored=unscored, params=params),
        unpaired=_unpaired(baseline, current, paired=paired),
        targets=grouped(shared_targets({item: targets[item] for item in paired.items if item in targets})),
        families=grouped(families),
        headroom=headroom(before.only(paired.items), params=params.headroom),
    )


def _merged(column: str, labels: Mapping[str, str], *, other: Mapping[str, str]) -> dict[str, str]:
    for item in sorted(labels.keys() & other.keys()):
        if labels[item] != other[item]:
            raise ConfigError(
                f"item {item!r}: {column} is {labels[item]!r} in the baseline and {other[item]!r} in the current file, "
                "so they are not the same item; rename one"
            )
    return {**labels, **other}


def _scores(side: Side, unscored: Unscored) -> Cells:
    scored = [(a.item_id, a.day, a.score) for a in side.answers if a.score is not None]
    if unscored == "wrong":
        scored += [(a.item_id, a.day, 0.0) for a in side.answers if a.score is None]
    return Cells.from_samples(scored)


def _judge(estimate: Estimate | TooFew, *, share: float, params: CompareParams) -> tuple[Judgement, tuple[str, ...]]:
    reasons = ["too_few_items"] if not reaches(share, params.min_item_share) else []
    if isinstance(estimate, TooFew):
        return "not_judged", (*reasons, estimate.reason)
    if not estimate.decidable:
        reasons.append("too_few_clusters")
    if reasons:
        return "not_judged", tuple(reasons)
    low, high = estimate.ci or estimate.ci_item
    changed = (low > 0 or high < 0) and reaches(abs(estimate.delta), params.min_effect)
    return ("changed" if changed else "no_change"), ()


def _mde(estimate: Estimate | TooFew, *, z_power: float) -> float | None:
    """Return the change that would be seen with the stated power, from the standard errors that decided."""
    if isinstance(estimate, TooFew) or not estimate.decidable:
        return None
    legs = [(estimate.se_used, estimate.df)]
    if estimate.day:
        legs.append((estimate.day.se, estimate.day.df))
    return max((t_critical(estimate.confidence, df) + z_power) * se for se, df in legs)


def _mcnemar(paired: PairedItems, *, min_discordant: int) -> tuple[McNemar | None, str | None]:
    before, after = paired.baseline, paired.window
    if (before.n > 1).any() or (after.n > 1).any():
        return None, "an item has several scored rows, so the paired delta is the test"
    if not (np.isin(before.total, (0, 1)).all() and np.isin(after.total, (0, 1)).all()):
        return None, "a score is neither 0 nor 1, so the paired delta is the test"
    lost = int(np.count_nonzero(before.total > after.total))
    won = int(np.count_nonzero(after.total > before.total))
    return mcnemar(lost, won, min_discordant=min_discordant), None


def _tokens(baseline: Side, current: Side, *, clusters: Mapping[str, str], params: TokenParams) -> TokenChange | None:
    cells = [_token_cells(side) for side in (baseline, current)]
    if not all(len(cell.counts) for cell in cells):
        return None
    return token_change(cells[0], cells[1], clusters=clusters, params=params)


def _token_cells(side: Side) -> TokenCells:
    known = [(a.item_id, a.day, a.output_tokens) for a in side.answers if a.output_tokens is not None]
    logs = [(item, day, float(np.log(tokens))) for item, day, tokens in known if tokens > 0]
    return TokenCells(Cells.from_samples(known), Cells.from_samples(logs))


def _otherwise(
    baseline: Side, current: Side, *, clusters: Mapping[str, str], unscored: Unscored, params: CompareParams
) -> Estimate | TooFew | None:
    if all(answer.score is not None for side in (baseline, current) for answer in side.answers):
        return None
    other: Unscored = "exclude" if unscored == "wrong" else "wrong"
    return paired_delta(
        _scores(baseline, other), _scores(current, other), clusters=clusters, params=params.tokens.estimate
    )


def _counts(side: Side) -> SideCounts:
    return SideCounts(
        rows=len(side.answers),
        items=len(side.items),
        unscored=sum(answer.score is None for answer in side.answers),
        sentinels_excluded=side.sentinels,
        invalid_excluded=side.invalid,
    )


def _unpaired(baseline: Side, current: Side, *, paired: PairedItems) -> Unpaired:
    def ordered(items: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(items))

    both = baseline.items & current.items
    return Unpaired(
        ordered(baseline.items - current.items),
        ordered(current.items - baseline.items),
        ordered(both - {*paired.items}),
    )


def _means(paired: PairedItems) -> tuple[float, float]:
    return float(np.mean(paired.baseline.mean)), float(np.mean(paired.window.mean))


def _group(paired: PairedItems, groups: Mapping[str, str], *, change: GroupDelta) -> GroupChange:
    before, after = _means(paired.of([item for item in paired.items if groups.get(item) == change.group]))
    return GroupChange(before, after, change)
