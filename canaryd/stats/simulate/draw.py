"""Simulated days: for every item and series the number of passed samples, from exact Bernoulli bits.

Series lie on the last axis, so that every later step runs along contiguous memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from canaryd.stats.cells import FloatArray
from canaryd.stats.simulate.plan import DayShock, Scenario, SimulationPlan

Counts: TypeAlias = NDArray[np.uint8]
#: One day: the passed samples of every item and series, (items, series), of the tracked arm and of a control if any.
DayDraw: TypeAlias = tuple[Counts, ...]

_LEVELS = 1 << 8


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

    Eight random bits against the first eight binary digits of the rate decide nearly every cell; only the others are
    touched again.
    """
    return _bits_by_item(rng, rates, series=series) if rates.shape[1] == 1 else _bits_by_cell(rng, rates)


def _bits_by_item(rng: np.random.Generator, rates: FloatArray, *, series: int) -> NDArray[np.bool_]:
    """Return bits whose rate is the same for all series.

    The rarer outcome, of rate p <= 1/2 with first digits q, is drawn at rate q and then added with probability
    x = (p - q)/(1 - q). Points thrown at random, Poisson with mean -log(1 - x) per cell, do that: they hit cells
    independently, each with probability x.
    """
    scaled = np.minimum(rates, 1 - rates) * _LEVELS
    digits = np.floor(scaled)
    bits: NDArray[np.bool_] = _random_bytes(rng, (len(rates), series)) < digits.astype(np.uint8)
    points = rng.poisson(-series * np.log1p(-(scaled - digits) / (_LEVELS - digits)))[:, 0]
    items = np.repeat(np.arange(len(rates)), points)
    bits[items, rng.integers(0, series, len(items))] = True
    bits ^= rates > 0.5
    return bits


def _bits_by_cell(rng: np.random.Generator, rates: FloatArray) -> NDArray[np.bool_]:
    """Return bits with a rate for every cell; where the first digits tie, a uniform number against the rest decides."""
    scaled = rates * _LEVELS
    digits = np.minimum(scaled, _LEVELS - 1).astype(np.uint8)
    drawn = _random_bytes(rng, rates.shape)
    bits = drawn < digits
    ties = np.flatnonzero(drawn == digits)
    rest = scaled.reshape(-1)[ties] - digits.reshape(-1)[ties]
    bits.reshape(-1)[ties] = rng.random(len(ties)) < rest
    return bits


def _random_bytes(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    cells = math.prod(shape)
    return rng.bit_generator.random_raw(-(-cells // 8)).view(np.uint8)[:cells].reshape(shape)


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
