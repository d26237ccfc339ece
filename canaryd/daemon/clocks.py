"""What the machine's clocks say about each other: a step of the calendar, a suspend, a time that cannot be trusted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from canaryd.runner.clock import SUSPENDED_S

Disturbance: TypeAlias = Literal["clock_step", "suspend"]

#: A calendar that drifts from the clock since boot by more than this between two readings was not merely slewed.
TOLERANCE_S = 5.0
#: Answers stored this far ahead of the clock say that the clock, not the store, is wrong.
BEHIND_STORE = timedelta(hours=1)
#: canaryd did not exist before this year.
FIRST_YEAR = 2026


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


def why_untrusted(now: datetime, newest_sample_at: datetime | None) -> str | None:
    """Return why nothing may be measured at this time, or None when the clock can be trusted."""
    if now.year < FIRST_YEAR:
        return f"the clock says {now:%Y-%m-%d}, before canaryd existed; set the clock"
    if newest_sample_at is not None and now < newest_sample_at - BEHIND_STORE:
        return (
            f"the clock says {now:%Y-%m-%d %H:%MZ}, but the store holds an answer of "
            f"{newest_sample_at:%Y-%m-%d %H:%MZ}; set the clock"
        )
    return None
