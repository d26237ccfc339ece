"""A person silences the alarm state that a series is in, until a time and with a reason; the state stays as it is."""

from __future__ import annotations

from datetime import datetime, timedelta

from canaryd.errors import UsageError
from canaryd.store import read
from canaryd.store.acknowledgements import Acknowledgement, add_acknowledgement
from canaryd.store.engine import Store

#: Whoever silences for longer has forgotten it before it ends.
LONGEST = timedelta(days=90)
_QUIET = ("warming_up", "ok")


def silence(store: Store, series: str, *, until: datetime, reason: str, now: datetime) -> Acknowledgement:
    """Store and return an acknowledgement of the state that a series is in now.

    Raises:
        UsageError: the state alarms nobody, or `until` has passed or is too far away.
    """
    if not now < until <= now + LONGEST:
        raise UsageError(
            f"--until is {until:%Y-%m-%d %H:%MZ}, but must lie after now ({now:%Y-%m-%d %H:%MZ}) and within "
            f"{LONGEST.days} days of it"
        )
    with store.read() as connection:
        read.series(connection, series)
        transitions = read.alarms(connection, series)
    state = transitions[-1].state if transitions else "warming_up"
    if state in _QUIET:
        raise UsageError(f"series {series!r} is in state {state}, which alarms nobody; there is nothing to silence")
    given = Acknowledgement(series, state, now, until, reason)
    add_acknowledgement(store, given)
    return given
