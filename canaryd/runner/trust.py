"""Whether the calendar can be trusted, by what the store already holds."""

from __future__ import annotations

from datetime import timedelta

from canaryd.errors import MeasurementRefused
from canaryd.runner.clock import Clock, FrozenClock
from canaryd.store import read
from canaryd.store.engine import Store

#: A clock that shows an earlier year than that of this canaryd is wrong.
BUILD_YEAR = 2026
_SLACK = timedelta(hours=1)
#: A pause that is longer than this is believed once a person has noted it.
LONGEST_PAUSE = timedelta(days=90)


def clock_problem(clock: Clock, store: Store) -> str | None:
    """Return why the clock cannot be trusted, or None."""
    now = clock.now()
    if now.year < BUILD_YEAR:
        return f"the clock says {now:%Y-%m-%d}, which is before this canaryd was made"
    with store.read() as connection:
        newest = read.newest_sample_at(connection)
    if newest is not None and now < newest - _SLACK:
        return f"the clock says {now:%Y-%m-%d %H:%MZ}, but a sample was stored at {newest:%Y-%m-%d %H:%MZ}"
    return _ahead(clock, store)


def require_no_leap(clock: Clock, store: Store) -> None:
    """Refuse a calendar that leapt ahead, before any day is closed by it.

    Raises:
        MeasurementRefused: it is too far ahead of everything that the store holds.
    """
    if said := _ahead(clock, store):
        raise MeasurementRefused(f"{said}; nothing was closed or measured", reason="clock_untrusted")


def _ahead(clock: Clock, store: Store) -> str | None:
    """Return how far the clock is ahead of the store, where that is too far; a frozen clock is set by a person."""
    now = clock.now()
    with store.read() as connection:
        known = read.newest_known_at(connection)
    if isinstance(clock, FrozenClock) or known is None or now <= known + LONGEST_PAUSE:
        return None
    return (
        f"the clock says {now:%Y-%m-%d}, {(now - known).days} days after everything that is stored; set it, or where "
        "nothing was measured for so long note that with `canaryd deviation add --reason TEXT`"
    )
