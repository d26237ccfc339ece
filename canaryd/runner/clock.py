"""The one place where the runner meets time; a frozen clock plays a calendar."""

from __future__ import annotations

import time as machine
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Protocol

from canaryd.config import Config
from canaryd.errors import ConfigError
from canaryd.files import read_text


class Clock(Protocol):
    """Wall time for labels, monotonic time for durations, and waiting."""

    def now(self) -> datetime:
        """Return the aware UTC time."""

    def monotonic_s(self) -> float:
        """Return seconds that never step back."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the aware UTC time."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Return seconds that never step back."""
        return machine.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        import asyncio

        await asyncio.sleep(seconds)


#: A machine that was suspended for longer than this has cut what it waited for.
SUSPENDED_S = 5.0


def suspended_s() -> float:
    """Return for how many seconds this machine has been suspended since it was booted; 0 where it does not count them.

    Two readings tell how long it was suspended between them: of two clocks, one goes on meanwhile.
    """
    boottime = getattr(machine, "CLOCK_BOOTTIME", None)
    return 0.0 if boottime is None else machine.clock_gettime(boottime) - machine.monotonic()


@dataclass(frozen=True, slots=True)
class FrozenClock:
    """A calendar that stands still at one moment; durations and waits are the machine's own."""

    moment: datetime

    def now(self) -> datetime:
        """Return the frozen moment."""
        return self.moment

    def monotonic_s(self) -> float:
        """Return seconds that never step back."""
        return machine.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        import asyncio

        await asyncio.sleep(seconds)


def set_demo_clock(config: Config, day: date, *, minute: int) -> None:
    """Let a project's demo clock show a minute of a day, in one step: a killed process leaves no half time behind."""
    assert config.demo_clock is not None
    moment = datetime.combine(day, time(), UTC) + timedelta(minutes=minute)
    written = config.demo_clock.with_suffix(".new")
    written.write_text(f"{moment.isoformat()}\n")
    written.replace(config.demo_clock)


def clock_of(config: Config) -> Clock:
    """Return the machine's clock, or the demo's frozen one where the project has one.

    Raises:
        ConfigError: the demo clock's file holds no aware time between the years 2000 and 2200.
    """
    if config.demo_clock is None:
        return SystemClock()
    text = read_text(config.demo_clock).strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not 2000 <= moment.year <= 2200:
        raise ConfigError(f"{config.demo_clock}: holds {text!r}, not a time such as 2027-03-01T03:10:00+00:00")
    return FrozenClock(moment.astimezone(UTC))
