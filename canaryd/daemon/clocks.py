"""What the machine's clocks say about each other: a step of the calendar, a suspend."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from canaryd.runner.clock import SUSPENDED_S

Disturbance: TypeAlias = Literal["clock_step", "suspend"]

#: A calendar that drifts from the clock since boot by more than this between two readings was not merely slewed.
TOLERANCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds of three clocks: the calendar's, since boot with suspends counted, and without."""

    realtime_s: float
    boottime_s: float
    monotonic_s: float


def read_clocks() -> Reading:
    """Return the clocks of this machine."""
    return Reading(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic())


def disturbances(before: Reading, now: Reading) -> tuple[Disturbance, ...]:
    """Return what happened to the clocks between two readings.

    >>> disturbances(Reading(0, 0, 0), Reading(3630, 30, 30)), disturbances(Reading(0, 0, 0), Reading(3630, 3630, 30))
    (('clock_step',), ('suspend',))
    """
    calendar = now.realtime_s - before.realtime_s
    boot = now.boottime_s - before.boottime_s
    awake = now.monotonic_s - before.monotonic_s
    found: list[Disturbance] = []
    if abs(calendar - boot) > TOLERANCE_S:
        found.append("clock_step")
    if boot - awake > SUSPENDED_S:
        found.append("suspend")
    return tuple(found)


class ClockWatch:
    """Compares each reading with the one before it."""

    def __init__(self, read: Callable[[], Reading] = read_clocks) -> None:
        self._read = read
        self._before = read()

    def look(self) -> tuple[Disturbance, ...]:
        """Return what happened since the last look."""
        before, self._before = self._before, self._read()
        return disturbances(before, self._before)
