"""The weekly regrading of a series, beside its runs: do the graders of today still grade the stored replies alike?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

import structlog
from sqlalchemy import Connection, func, select

from canaryd.daemon.worker import Order, Worker
from canaryd.store.engine import Store
from canaryd.store.rows import Series
from canaryd.store.schema_regrades import regrade
from canaryd.windows import utc_date

EVERY = timedelta(days=7)
#: A regrading that takes longer than this hangs.
LONGEST_S = 6 * 3600.0


class Regrading:
    """Starts a child once a week. It holds no lease and stores all of its pass or nothing, so it may die any time."""

    def __init__(self, series: str, start_worker: Callable[[Order], Worker]) -> None:
        self.worker: Worker | None = None
        self._start_worker = start_worker
        self._tried_on: date | None = None
        self._log = structlog.get_logger("canaryd.daemon").bind(series=series)

    def begin_if_owed(self, store: Store, series: Series, *, now: datetime, order: Order) -> None:
        """Start a pass where the latest is a week old; one that failed is tried again on the next day."""
        if self.worker is not None or self._tried_on == utc_date(now):
            return
        with store.read() as connection:
            if not is_owed(connection, series, now=now):
                return
        self._tried_on = utc_date(now)
        self.worker = self._start_worker(order)
        self.worker.begin()

    def has_ended(self) -> bool:
        """Return whether a pass has ended since the last look; one that hangs is killed."""
        if self.worker is None:
            return False
        code = self.worker.ended()
        if code is None and self.worker.silent_s > LONGEST_S:
            code = self.worker.end(timeout_s=0)
        if code is None:
            return False
        if code != 0:
            self._log.warning("child failed", work="regrade", code=code)
        self.worker = None
        return True

    def stop(self) -> None:
        """Kill a pass that is under way."""
        if self.worker is not None:
            self.worker.end(timeout_s=0)
            self.worker = None


def is_owed(connection: Connection, series: Series, *, now: datetime) -> bool:
    """Return whether the series is at least a week old and so is the latest pass over all of its replies."""
    row = regrade.c
    latest = connection.scalar(select(func.max(row.at)).where(row.series == series.name, row.since.is_(None)))
    return utc_date(now) - series.start_date >= EVERY and (latest is None or now - latest >= EVERY)
