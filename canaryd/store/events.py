"""Dated things that happened to an arm: they are no verdicts and take nothing out, they are printed beside both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Literal

from sqlalchemy import Connection, select

from canaryd.records import JsonValue
from canaryd.store import ledger
from canaryd.store import schema_contract as contract
from canaryd.store.engine import Store
from canaryd.store.lease import Lease, require_lease

EventKind = Literal["model_roll", "input_tokens", "configuration", "canary_answer"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to an arm in a slot; of each kind there is at most one an arm and slot."""

    series: str
    arm: str
    slot_date: date
    kind: EventKind
    detail: Mapping[str, JsonValue]
    at: datetime


def add_events(store: Store, found: Sequence[Event], *, lease: Lease) -> None:
    """Store events; one that is there already stays as it is.

    Raises:
        Locked: the lease is lost.
    """
    row = contract.event.c
    with store.write() as connection:
        require_lease(connection, lease)
        for event in found:
            query = select(row.event_id).where(
                row.series == event.series,
                row.slot_date == event.slot_date,
                row.arm == event.arm,
                row.kind == event.kind,
            )
            if connection.scalar(query) is None:
                values = asdict(event) | {"detail": dict(event.detail)}
                ledger.add(connection, event.series, table=contract.event, rows=[values])


def events(connection: Connection, series: str, *, first: date, last: date) -> tuple[Event, ...]:
    """Return the events of a span of slots, by date, arm and kind."""
    row = contract.event.c
    query = (
        select(*(row[name] for name in Event.__slots__))
        .where(row.series == series, row.slot_date.between(first, last))
        .order_by(row.slot_date, row.arm, row.kind)
    )
    return tuple(Event(**each) for each in connection.execute(query).mappings())
