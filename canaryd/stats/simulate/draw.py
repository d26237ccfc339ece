"""Simulated days: for every item and series the number of passed samples, from exact Bernoulli bits.

Series lie on the last axis, so that every later step runs along contiguous memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from canaryd.stats.cells import FloatArray
from canaryd.stats.simulate.plan import DayShock, Scenario, SimulationPlan

Counts: TypeAlias = NDArray[np.uint8]
#: One day: the passed samples of every item and series, (items, series), of the tracked arm and of a control if any.
DayDraw: TypeAlias = tuple[Counts, ...]

_LEVELS = 1 << 16


def shifted_rates(rates: FloatArray, drop: float) -> FloatArray:
    """Return the pass rates after a uniform logit shift that lowers their mean by `drop` (negative: raises it).

    Raises:
        ValueError: no shift lowers the mean that far, because it would pass 0 or 1.

    >>> shifted_rates(np.array([0.5, 0.9]), 0.1).round(4).tolist()
    [0.3631, 0.8369]
    """
    from scipy.optimize import brentq

    if drop == 0:
        return rates

    def shifted(theta: float) -> FloatArray:
        odds = np.exp(-theta)
        moved: FloatArray = rates * odds / (rates * odds + (1 - rates))
        return moved

    lowest, highest = (rates == 1).mean(), (rates > 0).mean()
    target = rates.mean() - drop
    if not lowest < target < highest:
        raise ValueError(
            f"a drop of {drop} would take the mean pass rate to {target:.3f}, which no logit shift reaches"
        )
    return shifted(brentq(lambda theta: shifted(theta).mean() - target, -40.0, 40.0, xtol=1e-12))


def bernoulli(rng: np.random.Generator, rates: FloatArray, *, series: int) -> NDArray[np.bool_]:
    """Return exact Bernoulli bits of shape (items, series) for rates of shape (items, 1) or (items, series).

    Sixteen random bits decide a cell unless they equal the first sixteen binary digits of its rate; there, once in
    65,536 cells, a uniform number against the remaining digits does.
    """
    scaled = rates * _LEVELS
    digits = np.minimum(scaled, _LEVELS - 1).astype(np.uint16)
    cells = len(rates) * series
    words = rng.bit_generator.random_raw(-(-cells * 16 // 64))
    drawn = words.view(np.uint16)[:cells].reshape(len(rates), series)
    bits = drawn < digits
    items, columns = np.divmod(np.flatnonzero(drawn == digits), series)
    columns_of_rate = columns if rates.shape[1] > 1 else 0
    rest = (scaled - digits)[items, columns_of_rate]
    bits[items, columns] = rng.random(len(items)) < rest
    return bits


def shock_path(rng: np.random.Generator, shock: DayShock, *, days: int, series: int) -> Iterator[FloatArray | None]:
    """Yield the shock of every day and series: a stationary AR(1) with standard deviation sd, or None without any."""
    if shock.sd == 0:
        for _ in range(days):
            yield None
        return
    state = shock.sd * rng.standard_normal(series)
    fresh_sd = shock.sd * np.sqrt(1 - shock.rho**2)
    for _ in range(days):
        yield state
        state = shock.rho * state + fresh_sd * rng.standard_normal(series)


def drawn_days(scenario: Scenario, plan: SimulationPlan, *, series: int, rng: np.random.Generator) -> Iterator[DayDraw]:
    """Yield every day of `series` simulated series; the same generator state gives the same bits."""
    before = np.array(plan.pass_rates)[:, None]
    after = shifted_rates(before, scenario.drop)
    shocks = shock_path(rng, scenario.shock, days=scenario.days, series=series)
    for day, shock in enumerate(shocks, start=1):
        changed = day > scenario.change_day
        rates = [after if changed else before]
        if plan.control:
            rates.append(after if changed and scenario.truth == "platform" else before)
        yield tuple(_passes(rng, rate, shock=shock, series=series, samples=plan.samples_per_day) for rate in rates)


def _passes(
    rng: np.random.Generator, rates: FloatArray, *, shock: FloatArray | None, series: int, samples: int
) -> Counts:
    rates = rates if shock is None else np.clip(rates + shock, 0.0, 1.0)
    passes = bernoulli(rng, rates, series=series).view(np.uint8)
    for _ in range(samples - 1):
        passes += bernoulli(rng, rates, series=series)
    return passes
