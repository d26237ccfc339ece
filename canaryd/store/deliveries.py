"""What the webhook was told: one row for each notice, so that none is told twice or forgotten."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from sqlalchemy import Connection, insert, select

from canaryd.store.engine import Store
from canaryd.store.schema_alarms import webhook_delivery

#: `accepted` by the receiver, or not sent because an acknowledgement had `silenced` it.
DeliveryOutcome = Literal["accepted", "silenced"]


def keep_delivery(store: Store, series: str, *, notice: str, outcome: DeliveryOutcome, now: datetime) -> None:
    """Store what became of a notice, under its id within the series.

    Raises:
        RowRefused: that is stored already, or the series is not registered.
    """
    with store.write() as connection:
        values = {"series": series, "notice": notice, "outcome": outcome, "at": now}
        connection.execute(insert(webhook_delivery).values(values))


def deliveries(connection: Connection, series: str) -> dict[str, DeliveryOutcome]:
    """Return what became of each notice of a series, by its id."""
    row = webhook_delivery.c
    return {
        each.notice: each.outcome
        for each in connection.execute(select(row.notice, row.outcome).where(row.series == series))
    }
