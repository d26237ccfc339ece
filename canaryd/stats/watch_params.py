"""The registered numbers of the early warning and of the sentinels; none has a default, the registration holds them.

Nothing heavy is imported here, so that a reader of the registration need not load numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Direction: TypeAlias = Literal["drop", "rise", "either"]
Stream: TypeAlias = Literal["score", "tokens", "difference"]


@dataclass(frozen=True, slots=True)
class EarlyWarningParams:
    """The constants of the early warning.

    Attributes:
        alpha: false-alarm bound of the whole series (all segments, all streams).
        streams: the registered streams; each alarms at a capital of len(streams) / alpha of its segment.
        direction: which capital alarms.
        thetas: odds of the Lehmann alternatives, each > 1.
        baseline_days: n0, usable days of a segment before the first possible change.
        freeze_days: L, an onset hypothesis keeps its value once it is that many days old.
        max_segment_days: usable days after which a segment ends without an alarm.
        min_coverage: share of the arm's items that must be present for a day to be usable.
        rank_decimals: day scores are rounded to this many decimals before they are ranked.
        prior_single_weight: share of the onset prior on 1/(k(k+1)); the rest is spread evenly inside blocks.
        prior_block_days: length of such a block.
        change_set_ratio: days whose weight is within this factor of the best make up the change-date set.
    """

    alpha: float
    streams: tuple[Stream, ...]
    direction: Direction
    thetas: tuple[float, ...]
    baseline_days: int
    freeze_days: int
    max_segment_days: int
    min_coverage: float
    rank_decimals: int
    prior_single_weight: float
    prior_block_days: int
    change_set_ratio: float

    def __post_init__(self) -> None:
        """Raise ValueError, naming the field, where a constant leaves the e-process undefined."""
        checks = {
            "alpha": 0.0 < self.alpha < 1.0,
            "streams": 0 < len(set(self.streams)) == len(self.streams),
            "thetas": bool(self.thetas) and min(self.thetas) > 1.0,
            "baseline_days": self.baseline_days >= 1,
            "freeze_days": self.freeze_days >= 1,
            "prior_block_days": self.prior_block_days >= 1,
            "max_segment_days": self.max_segment_days > self.baseline_days,
            "min_coverage": 0.0 < self.min_coverage <= 1.0,
            "prior_single_weight": 0.0 <= self.prior_single_weight <= 1.0,
            "change_set_ratio": self.change_set_ratio >= 1.0,
        }
        broken = [name for name, holds in checks.items() if not holds]
        if broken:
            value = getattr(self, broken[0])
            raise ValueError(f"early warning: {broken[0]} = {value!r} leaves the e-process undefined")

    def threshold(self, segment: int) -> float:
        """Return the capital at which one stream alarms in segment r = 1, 2, ...: S r (r + 1) / alpha.

        The levels alpha/(r(r+1)) sum to alpha over all segments, and the S streams share each of them.
        """
        return len(self.streams) * segment * (segment + 1) / self.alpha


@dataclass(frozen=True, slots=True)
class SentinelParams:
    """The constants of the sentinels.

    Attributes:
        false_alarms_per_year: expected false alarms allowed per series and year, over all its sentinels.
        runs_per_year: runs the budget is spread over.
        min_replicates: scored replicates below which a sentinel is unjudged that day.
        collapse_min_moved: sentinels that must have moved in one slot, and
        collapse_min_share: the share of the sentinels that must have, for the series to count as collapsed;
        collapse_slots: consecutive slots in which one sentinel moved that count as collapsed by themselves.
    """

    false_alarms_per_year: float
    runs_per_year: int
    min_replicates: int
    collapse_min_moved: int
    collapse_min_share: float
    collapse_slots: int

    def alpha(self, sentinels: int) -> float:
        """Return the level of one sentinel in one run: the yearly budget / runs / number of sentinels."""
        return self.false_alarms_per_year / self.runs_per_year / sentinels
