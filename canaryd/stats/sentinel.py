"""Sentinels: items that watch the model instead of measuring it, each judged against its own baseline noise.

The registered budget of false alarms per series and year is split evenly over the year's runs and the sentinels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from canaryd.stats.cells import FloatArray
from canaryd.stats.watch_params import SentinelParams
from canaryd.stats.watch_state import SentinelState

_JEFFREYS = 0.5
_SAME_SCORE = 1e-9
_SEARCH_LIMIT = 2**20


@dataclass(frozen=True, slots=True)
class SentinelBaseline:
    """Sums over a sentinel's n baseline scores, each in [0, 1]; from its baseline days or from a burst before day 1."""

    n: int
    total: float
    total_sq: float

    @classmethod
    def of_scores(cls, scores: Sequence[float]) -> SentinelBaseline:
        """Return the sums of single scores."""
        return cls(len(scores), math.fsum(scores), math.fsum(score * score for score in scores))

    @classmethod
    def perfect(cls, n: int) -> SentinelBaseline:
        """Return the baseline of an item that is always right: what registration assumes before there is one."""
        return cls(n, float(n), float(n))

    @property
    def mean(self) -> float:
        """The mean baseline score."""
        return self.total / self.n

    @property
    def binary(self) -> bool:
        """Whether every score is 0 or 1: in [0, 1] the sum of squares equals the sum only then."""
        return self.total_sq == self.total

    @property
    def sd(self) -> float:
        """The sample standard deviation (ddof 1), exactly 0 where all scores are the same."""
        variance = max(self.total_sq - self.total**2 / self.n, 0.0) / (self.n - 1)
        sd = math.sqrt(variance)
        return sd if sd > _SAME_SCORE else 0.0

    def scaled(self, n: int) -> SentinelBaseline:
        """Return a baseline of n scores with the same shares of every score."""
        return SentinelBaseline(n, self.total * n / self.n, self.total_sq * n / self.n)


@dataclass(frozen=True, slots=True)
class SentinelReading:
    """One sentinel on one day: its state and the figures of the sentence that is printed.

    `low` .. `high` is the set of today's means that would not count as moved (one point where the baseline is constant
    but not 0/1). The figures are None where nothing was judged.
    """

    state: SentinelState
    baseline_mean: float | None = None
    today_mean: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class SentinelReach:
    """Whether a sentinel can move at all: its smallest reachable two-sided tail against its level.

    Where it cannot, `needed_replicates` (at this baseline) and `needed_baseline` (at these replicates) name what would
    do; None says that no such number up to a million would.
    """

    tail: float
    alpha: float
    needed_replicates: int | None
    needed_baseline: int | None

    @property
    def can_move(self) -> bool:
        """Whether some outcome of a run counts as moved."""
        return self.tail < self.alpha


def judge_sentinel(
    baseline: SentinelBaseline | None, today: Sequence[float], *, alpha: float, params: SentinelParams
) -> SentinelReading:
    """Return whether today's scored replicates moved off the baseline, in either direction.

    Binary scores with S successes in n: X ~ BetaBinomial(m, S + 1/2, n - S + 1/2), the Jeffreys predictive; moved iff
    2 min(P(X <= x), P(X >= x)) < alpha. Other scores: moved iff |mean_today - mean_base| > t(1 - alpha/2, n - 1) s
    sqrt(1/m + 1/n); with s = 0, iff all m scores differ from the constant on the same side.

    >>> params = SentinelParams(
    ...     false_alarms_per_year=0.01, runs_per_year=365, min_replicates=2, collapse_min_moved=2,
    ...     collapse_min_share=0.5, collapse_slots=2)
    >>> judge_sentinel(SentinelBaseline.perfect(80), [0.0] * 4, alpha=params.alpha(1), params=params)
    SentinelReading(state='moved', baseline_mean=1.0, today_mean=0.0, low=0.5, high=1.0)
    """
    if baseline is None or baseline.n < params.min_replicates:
        return SentinelReading("warming_up")
    if len(today) < params.min_replicates:
        return SentinelReading("unjudged", baseline_mean=baseline.mean)
    m, mean = len(today), math.fsum(today) / len(today)
    if baseline.binary and set(today) <= {0.0, 1.0}:
        kept = np.flatnonzero(_two_sided_tails(baseline, m) >= alpha)
        low, high = float(kept[0]) / m, float(kept[-1]) / m
        moved = not kept[0] <= round(math.fsum(today)) <= kept[-1]
    elif baseline.sd > 0:
        critical = -float(scipy.special.stdtrit(baseline.n - 1, alpha / 2))
        half_width = critical * baseline.sd * math.sqrt(1 / m + 1 / baseline.n)
        low, high = max(baseline.mean - half_width, 0.0), min(baseline.mean + half_width, 1.0)
        moved = abs(mean - baseline.mean) > half_width
    else:
        low = high = baseline.mean
        moved = min(today) > baseline.mean + _SAME_SCORE or max(today) < baseline.mean - _SAME_SCORE
    return SentinelReading("moved" if moved else "ok", baseline.mean, mean, low, high)


def _predictive(baseline: SentinelBaseline, m: int) -> FloatArray:
    """Return P(X = 0) .. P(X = m) of the Jeffreys predictive."""
    successes, failures = baseline.total + _JEFFREYS, baseline.n - baseline.total + _JEFFREYS
    k, betaln = np.arange(m + 1), scipy.special.betaln
    probability: FloatArray = scipy.special.comb(m, k) * np.exp(
        betaln(k + successes, m - k + failures) - betaln(successes, failures)
    )
    return probability


def _two_sided_tails(baseline: SentinelBaseline, m: int) -> FloatArray:
    probability = _predictive(baseline, m)
    at_most, at_least = probability.cumsum(), probability[::-1].cumsum()[::-1]
    tails: FloatArray = np.minimum(2 * np.minimum(at_most, at_least), 1.0)
    return tails


def _least_tail(baseline: SentinelBaseline, m: int) -> float:
    """Return the smallest two-sided tail that m scores in [0, 1] can reach: all of them 0, or all of them 1."""
    if baseline.binary:
        a, b = baseline.total + _JEFFREYS, baseline.n - baseline.total + _JEFFREYS
        betaln = scipy.special.betaln
        none, all_right = betaln(a, b + m) - betaln(a, b), betaln(a + m, b) - betaln(a, b)
        return min(2 * math.exp(min(none, all_right)), 1.0)
    if baseline.sd == 0:
        return 0.0
    furthest = max(baseline.mean, 1 - baseline.mean) / (baseline.sd * math.sqrt(1 / m + 1 / baseline.n))
    return float(2 * scipy.special.stdtr(baseline.n - 1, -furthest))


def sentinel_reach(baseline: SentinelBaseline, replicates: int, *, alpha: float) -> SentinelReach:
    """Return whether a sentinel with `replicates` a run can ever move, and what it would need where it cannot.

    >>> reach = sentinel_reach(SentinelBaseline.perfect(40), 2, alpha=0.01 / 365)
    >>> round(reach.tail, 5), reach.can_move, reach.needed_replicates, reach.needed_baseline
    (0.00087, False, 4, 233)
    """
    tail = _least_tail(baseline, replicates)
    if tail < alpha:
        return SentinelReach(tail, alpha, replicates, baseline.n)
    return SentinelReach(
        tail,
        alpha,
        _smallest(replicates, lambda m: _least_tail(baseline, m) < alpha),
        _smallest(baseline.n, lambda n: _least_tail(baseline.scaled(n), replicates) < alpha),
    )


def _smallest(start: int, enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number above `start` that is enough, `enough` being monotone and false at `start`."""
    low, high = start, 2 * start
    while not enough(high):
        if high > _SEARCH_LIMIT:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def false_alarms_per_year(
    sentinels: Iterable[tuple[SentinelBaseline, int]], *, alpha: float, params: SentinelParams
) -> float:
    """Return the expected false alarms a year that are left: discreteness keeps most of the budget unspent.

    `sentinels` are (baseline, replicates a run). Binary items count the predictive probability of the outcomes that
    count as moved, others their level alpha; a constant baseline of n counts the predictive probability that all m
    scores differ, since "differs" is then an event never seen in n.
    """
    per_run = 0.0
    for baseline, m in sentinels:
        if baseline.binary:
            moved = _two_sided_tails(baseline, m) < alpha
            per_run += float(_predictive(baseline, m)[moved].sum())
        elif baseline.sd == 0:
            per_run += float(_predictive(SentinelBaseline.perfect(baseline.n), m)[0])
        else:
            per_run += alpha
    return per_run * params.runs_per_year
