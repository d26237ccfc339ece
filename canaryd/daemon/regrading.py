"""The weekly regrading of a series, beside its runs: do the graders of today still grade the stored replies alike?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

from sqlalchemy import Connection, func, select

from canaryd.daemon.errand import Errand
from canaryd.daemon.worker import Order, Worker
from canaryd.store.engine import Store
from canaryd.store.rows import Series
from canaryd.store.schema_regrades import regrade
from canaryd.windows import utc_date

EVERY = timedelta(days=7)
#: A regrading that takes longer than this hangs.
LONGEST_S = 6 * 3600.0


class Regrading:
    """Starts a child once a week, which stores all of its pass or nothing."""

    def __init__(self, start_worker: Callable[[Order], Worker]) -> None:
        self._errand = Errand(start_worker, longest_s=LONGEST_S)
        self._tried_on: date | None = None

    def begin_if_owed(self, store: Store, series: Series, *, now: datetime, order: Order) -> None:
        """Start a pass where the latest is a week old; one that failed is tried again on the next day."""
        if self._errand.is_under_way or self._tried_on == utc_date(now):
            return
        with store.read() as connection:
            if not is_owed(connection, series, now=now):
                return
        self._tried_on = utc_date(now)
        self._errand.begin(order)

    def has_ended(self) -> bool:
        """Return whether a pass has ended since the last look."""
        return self._errand.ended() is not None

    def stop(self) -> None:
        """Kill a pass that is under way."""
        self._errand.stop()


def is_owed(connection: Connection, series: Series, *, now: datetime) -> bool:
    """Return whether the series is at least a week old and so is the latest pass over all of its replies."""
    row = regrade.c
    latest = connection.scalar(select(func.max(row.at)).where(row.series == series.name, row.since.is_(None)))
    return utc_date(now) - series.start_date >= EVERY and (latest is None or now - latest >= EVERY)
