"""Early warning: the sequential-rank likelihood-ratio e-process on the order of days.

Under exchangeable days the sequential ranks are independent and uniform whatever the baseline was (Savage 1956).
For every possible first changed day j the observed order has a Plackett-Luce probability under "days from j on are
lower" (Lehmann 1953); divided by 1/t! it is a likelihood ratio with mean 1, and so is any mixture of them. By Ville's
inequality P(the capital ever reaches 1/alpha) <= alpha, at every look, for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from canaryd.stats.cells import FloatArray
from canaryd.stats.watch_params import Direction, EarlyWarningParams

_LOOKUPS_AT_ONCE = 16_384
IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CapitalPath:
    """Capital after each day of one segment (or after its last days), for S series side by side.

    `drop` and `rise` have shape (days, S). `onset_weight_drop` and `onset_weight_rise` hold pi(j - n0) E_j(t) after the
    last day for j = n0 + 1 .. t (row 0 is day n0 + 1). `onset` (days, S) is the most likely first changed day after
    each day (1-based, 0 up to day n0) in the registered direction.
    """

    direction: Direction
    drop: FloatArray
    rise: FloatArray
    onset: IntArray
    onset_weight_drop: FloatArray
    onset_weight_rise: FloatArray

    @property
    def capital(self) -> FloatArray:
        """Capital in the registered direction, shape (t, S)."""
        return _directed(self.direction, drop=self.drop, rise=self.rise)

    @property
    def onset_weight(self) -> FloatArray:
        """Onset weights in the registered direction after the last day."""
        return _directed(self.direction, drop=self.onset_weight_drop, rise=self.onset_weight_rise)


def _directed(direction: Direction, *, drop: FloatArray, rise: FloatArray) -> FloatArray:
    if direction == "either":
        return (drop + rise) / 2
    return drop if direction == "drop" else rise


def onset_prior(count: int, params: EarlyWarningParams) -> FloatArray:
    """Return pi(1) .. pi(count), the prior of the first changed day k days after the baseline.

    pi(k) = w / (k (k + 1)) + (1 - w) / (B b (b + 1)) with b = ceil(k / B); it sums to 1. With w = 1/2
    and B = 10, pi(1) = 11/40.
    """
    k = np.arange(1, count + 1, dtype=np.float64)
    block = np.ceil(k / params.prior_block_days)
    single, spread = params.prior_single_weight, 1.0 - params.prior_single_weight
    prior: FloatArray = single / (k * (k + 1)) + spread / (params.prior_block_days * block * (block + 1))
    return prior


def capital_path(ranks: NDArray[np.integer], params: EarlyWarningParams, *, last: int | None = None) -> CapitalPath:
    """Return the capital after every day from the days' insertion ranks.

    Args:
        ranks: shape (t,) or (t, S); row s is the 0-based position, lowest first, at which day s + 1 enters the list of
            the days before it.
        params: the registered constants.
        last: how many of the last days the path is wanted for (None: all); a day's own costs a fraction of a year's.

    The likelihood ratio of onset j with m = t - j + 1 changed days of weight theta is, with x_(1) < ... < x_(m) the
    changed days' positions from the top of the list and L_c(y) = log Gamma(y + 1 + (theta - 1) c),

        log A = m log theta + log t! - L_m(t) + sum_c [ L_c(x_(c) - 1) - L_{c-1}(x_(c) - 1) ] ,

    the Plackett-Luce product of the factors (t - k + 1) g_k / (g_k + g_{k+1} + ...), g = theta on changed days and 1 on
    others, with runs of equal steps gathered into Gamma functions. D is the same from the bottom with 1/theta, E_j is
    the mean of (A + D)/2 over the thetas, and the rise exchanges top and bottom. An onset older than `freeze_days`
    keeps its value. Capital is sum_j pi(j - n0) E_j plus the prior of the onsets still to come.

    Raises:
        ValueError: a rank of day t is not in 0 .. t - 1.

    >>> toy = EarlyWarningParams(
    ...     alpha=0.01, streams=("score",), direction="drop", thetas=(3.0, 10.0), baseline_days=2, freeze_days=60,
    ...     max_segment_days=365, min_coverage=0.8, rank_decimals=9, prior_single_weight=0.5, prior_block_days=10,
    ...     change_set_ratio=20.0)
    >>> capital_path(np.array([0, 1, 0]), toy).capital[-1, 0]  # 3729/2800
    np.float64(1.33178571428571...)
    """
    columns = ranks.reshape(len(ranks), -1).astype(np.int64)
    if ((columns < 0) | (columns > np.arange(len(columns))[:, None])).any():
        raise ValueError("early warning: the rank of day t must lie in 0 .. t - 1")
    return _follow(columns, params, skipped=len(columns) - (len(columns) if last is None else last))


def _follow(columns: IntArray, params: EarlyWarningParams, *, skipped: int) -> CapitalPath:
    """Return the path without its first `skipped` days, of which only the values that froze by then are needed."""
    (days, series), n0, freeze = columns.shape, params.baseline_days, params.freeze_days
    prior = onset_prior(max(days - n0, 0), params)[:, None]
    places = np.empty_like(columns)
    drop, rise = np.ones((2, days - skipped, series))
    onset = np.zeros((days - skipped, series), dtype=np.int64)
    weight_drop, weight_rise = np.zeros((2, len(prior), series))
    if days <= n0:  # the baseline alone: nothing is weighed yet
        return CapitalPath(params.direction, drop, rise, onset, weight_drop, weight_rise)
    table = _gamma_differences(days, params)
    for t, rank in enumerate(columns, start=1):
        places[: t - 1] += places[: t - 1] >= rank
        places[t - 1] = rank
        row, seen = t - 1 - skipped, slice(t - n0)
        if t <= n0 or (row < 0 and t - n0 < freeze):
            continue
        oldest = max(t - n0 - freeze, 0)
        moving = slice(oldest, oldest + 1 if row < 0 else t - n0)
        ratios = _likelihood_ratios(places[:t], table, params=params, oldest_only=row < 0)
        weight_drop[moving], weight_rise[moving] = (prior[moving] * ratio for ratio in ratios)
        if row >= 0:
            unseen = 1.0 - prior[seen].sum()
            drop[row], rise[row] = (weight[seen].sum(axis=0) + unseen for weight in (weight_drop, weight_rise))
            best = _directed(params.direction, drop=weight_drop[seen], rise=weight_rise[seen])
            onset[row] = n0 + 1 + best.argmax(axis=0)
    return CapitalPath(params.direction, drop, rise, onset, weight_drop, weight_rise)


def _tilts(params: EarlyWarningParams) -> FloatArray:
    """Return the thetas followed by their reciprocals: the weights of A and of D."""
    thetas = np.array(params.thetas)
    return np.concatenate([thetas, 1.0 / thetas])


def _gamma_differences(days: int, params: EarlyWarningParams) -> FloatArray:
    """Return L_c(x - 1) - L_{c-1}(x - 1) for c changed days and position x, shape (c, x, tilt); row c = 0 is zero."""
    c = np.arange(min(days, params.freeze_days) + 1.0)[:, None, None]
    x = np.maximum(np.arange(days + 1.0)[None, :, None], np.maximum(c, 1.0))
    excess = _tilts(params) - 1.0
    before = np.maximum(c - 1.0, 0.0)
    table: FloatArray = scipy.special.gammaln(x + excess * c) - scipy.special.gammaln(x + excess * before)
    return table


def _likelihood_ratios(
    places: IntArray, table: FloatArray, *, params: EarlyWarningParams, oldest_only: bool
) -> tuple[FloatArray, FloatArray]:
    """Return E_j(t) of a drop and of a rise for the onsets that still move, oldest first, each (m, S).

    `places` (t, S) are the days' 0-based positions from the bottom of the list. `oldest_only` leaves one onset, m = 1.
    """
    t, series = places.shape
    recent = places[max(params.baseline_days, t - params.freeze_days) :][::-1]
    width = len(recent)
    changed = np.arange(1, width + 1)[:, None, None]
    flat = table.reshape(-1, table.shape[-1])
    tilts = _tilts(params)
    gammas = scipy.special.gammaln(t + 1.0) - scipy.special.gammaln(t + 1.0 + changed[:, :, 0] * (tilts - 1.0))
    start = changed[:, :, 0] * np.log(tilts) + gammas
    top = np.repeat(start[:, None, :], series, axis=1)
    bottom = top.copy()
    step = max(1, _LOOKUPS_AT_ONCE // (width * series))
    for first in range(0, width, step):
        element = recent[first : first + step]
        onsets = slice(width - 1 if oldest_only else first, width)
        above = (recent[:, None] >= element).cumsum(axis=0)[onsets]
        m = changed[onsets]
        inside = m > np.arange(first, first + len(element))[:, None]
        index_top = np.where(inside, above, 0) * table.shape[1] + (t - element)
        index_bottom = np.where(inside, m + 1 - above, 0) * table.shape[1] + (element + 1)
        top[onsets] += flat.take(index_top, axis=0).sum(axis=1)
        bottom[onsets] += flat.take(index_bottom, axis=0).sum(axis=1)
    wanted = slice(width - 1 if oldest_only else 0, width)
    top, bottom = np.exp(top[wanted])[::-1], np.exp(bottom[wanted])[::-1]
    half = len(params.thetas)
    drop: FloatArray = (top[..., :half] + bottom[..., half:]).mean(axis=-1) / 2
    rise: FloatArray = (bottom[..., :half] + top[..., half:]).mean(axis=-1) / 2
    return drop, rise
