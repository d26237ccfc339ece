"""Alarm states that a person has acknowledged until a time: their pages and messages stay away, the state stays.

A person may write these while a daemon holds the series, so they take no lease.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from canaryd.records import AlarmState
from canaryd.store.engine import Store
from canaryd.store.schema_alarms import acknowledgement


class Acknowledgement(NamedTuple):
    """One alarm state of a series, acknowledged from `at` to `until`, with the reason given."""

    series: str
    state: AlarmState
    at: datetime
    until: datetime
    reason: str

    def is_in_force(self, now: datetime) -> bool:
        """Return whether it silences its state at `now`."""
        return self.at <= now < self.until


def add_acknowledgement(store: Store, given: Acknowledgement) -> None:
    """Store an acknowledgement; it replaces an earlier one of the same state.

    Raises:
        RowRefused: the series is not registered.
    """
    with store.write() as connection:
        _add(connection, given)


def _add(connection: Connection, given: Acknowledgement) -> None:
    # Imported here: whoever only reads, `canaryd status` above all, needs no hash chain.
    from canaryd.store import ledger

    ledger.add(connection, given.series, table=acknowledgement, rows=[given._asdict()])


def acknowledgements(connection: Connection, series: str) -> dict[AlarmState, Acknowledgement]:
    """Return the newest acknowledgement of each state of a series that has one, in force or not."""
    row = acknowledgement.c
    query = select(*(row[name] for name in Acknowledgement._fields)).where(row.series == series)
    found = map(Acknowledgement._make, connection.execute(query.order_by(row.acknowledgement_id)))
    return {each.state: each for each in found}


def newest(connection: Connection) -> int | None:
    """Return the id of the newest acknowledgement of any series, None where there is none."""
    found: int | None = connection.scalar(select(func.max(acknowledgement.c.acknowledgement_id)))
    return found
