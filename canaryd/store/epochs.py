"""Baseline epochs, and what people decided about a series: deviations, new baselines, acknowledgements.

A person may write these while a daemon holds the series, so they take no lease.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Literal

from sqlalchemy import Connection, insert, select

from canaryd.records import JsonValue
from canaryd.store import schema_contract as contract
from canaryd.store.engine import Store
from canaryd.store.rows import Series

DeviationKind = Literal["noted", "accepted", "equivalent", "rebaseline", "no_canary", "ack"]


@dataclass(frozen=True, slots=True)
class Deviation:
    """What somebody decided about a series, with the reason given; `slot_date` is the first slot that it concerns."""

    series: str
    kind: DeviationKind
    slot_date: date
    reason: str
    detail: Mapping[str, JsonValue]
    at: datetime


@dataclass(frozen=True, slots=True)
class Epoch:
    """A stretch of slots that shares one baseline, from its first date; the first has no deviation that opened it."""

    number: int
    first_date: date
    opened_by: Deviation | None = None


def epochs(connection: Connection, series: Series) -> tuple[Epoch, ...]:
    """Return the epochs of a series in order; the first begins with the series."""
    row, note = contract.epoch.c, contract.deviation
    query = select(row.epoch, row.first_date, note).join_from(contract.epoch, note).where(row.series == series.name)
    later = connection.execute(query.order_by(row.epoch)).mappings()
    opened = [
        Epoch(each["epoch"], each["first_date"], Deviation(**{k: each[k] for k in Deviation.__slots__}))
        for each in later
    ]
    return (Epoch(1, series.start_date), *opened)


def epoch_on(known: Sequence[Epoch], slot_date: date) -> Epoch:
    """Return the epoch that a slot date belongs to, the first for a date before the series.

    >>> known = [Epoch(1, date(2027, 1, 1)), Epoch(2, date(2027, 2, 1))]
    >>> epoch_on(known, date(2027, 1, 31)).number, epoch_on(known, date(2027, 2, 1)).number
    (1, 2)
    """
    return next((epoch for epoch in reversed(known) if epoch.first_date <= slot_date), known[0])


def deviations(connection: Connection, series: str, *, kind: DeviationKind | None = None) -> tuple[Deviation, ...]:
    """Return what was decided about a series, oldest first: all of it, or one kind."""
    row = contract.deviation.c
    query = select(*(row[name] for name in Deviation.__slots__)).where(row.series == series).order_by(row.deviation_id)
    if kind is not None:
        query = query.where(row.kind == kind)
    return tuple(Deviation(**each) for each in connection.execute(query).mappings())


def add_deviation(store: Store, deviation: Deviation) -> int:
    """Store a decision and return its id.

    Raises:
        RowRefused: the series is not registered.
    """
    with store.write() as connection:
        return insert_deviation(connection, deviation)


def insert_deviation(connection: Connection, deviation: Deviation) -> int:
    """Store a decision in a transaction that goes on, and return its id."""
    deviation_id = _add(connection, deviation)
    _ledgered(connection, deviation.series, deviation_id=deviation_id)
    return deviation_id


def open_epoch(store: Store, deviation: Deviation, *, number: int) -> None:
    """Store a decision that opens epoch `number` with the slot of its date, both or neither.

    Raises:
        RowRefused: there is such an epoch already.
    """
    with store.write() as connection:
        deviation_id = _add(connection, deviation)
        values = {"series": deviation.series, "epoch": number, "first_date": deviation.slot_date}
        connection.execute(insert(contract.epoch).values(**values, deviation_id=deviation_id))
        _ledgered(connection, deviation.series, deviation_id=deviation_id)


def _add(connection: Connection, deviation: Deviation) -> int:
    values = asdict(deviation) | {"detail": dict(deviation.detail)}
    key = connection.execute(insert(contract.deviation).values(values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def _ledgered(connection: Connection, series: str, *, deviation_id: int) -> None:
    # Imported here: whoever only reads, `canaryd status` above all, needs no hash chain.
    from canaryd.store import ledger

    ledger.extend(connection, series, kind="deviation", row_id=deviation_id)
