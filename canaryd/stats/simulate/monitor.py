"""The early warning over many simulated series: the day of its first alarm."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from canaryd.stats.cells import FloatArray
from canaryd.stats.eprocess import IntArray, capital_path
from canaryd.stats.watch_params import EarlyWarningParams

_SERIES_AT_ONCE = 128


def uniform_ranks(rng: np.random.Generator, *, days: int, series: int) -> IntArray:
    """Return sequential ranks of exchangeable days, (days, series): independent, uniform on 0 .. t - 1, exactly."""
    return rng.integers(0, np.arange(1, days + 1)[:, None], (days, series))


def ranks_of_scores(scores: NDArray[np.integer], rng: np.random.Generator) -> IntArray:
    """Return the insertion ranks of day scores (days, series) without missing cells; ties are broken at random."""
    ranks = np.zeros(scores.shape, dtype=np.int64)
    for day, today in enumerate(scores):
        less = (scores[:day] < today).sum(axis=0)
        ties = (scores[:day] == today).sum(axis=0)
        ranks[day] = less + (rng.random(len(today)) * (ties + 1)).astype(np.int64)
    return ranks


def first_alarms(ranks: IntArray, params: EarlyWarningParams) -> FloatArray:
    """Return the first day on which the capital of each series reaches the threshold of segment 1; inf for never."""
    found = []
    for first in range(0, ranks.shape[1], _SERIES_AT_ONCE):
        capital = capital_path(ranks[:, first : first + _SERIES_AT_ONCE], params).capital
        alarm = capital >= params.threshold(1)
        found.append(np.where(alarm.any(axis=0), alarm.argmax(axis=0) + 1.0, np.inf))
    return np.concatenate(found) if found else np.zeros(0)
