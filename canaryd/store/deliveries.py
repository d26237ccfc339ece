"""Which transitions of alarm states the webhook was told of: one row each, so that none is told twice or forgotten."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy import Connection, insert, select

from canaryd.records import Alarm, AlarmState
from canaryd.store import schema
from canaryd.store.engine import Store
from canaryd.store.schema_alarms import webhook_delivery

#: `accepted` by the receiver; not sent because it was `silenced` by an acknowledgement, or `outdated` when first seen.
DeliveryOutcome = Literal["accepted", "silenced", "outdated"]


class Transition(NamedTuple):
    """One row of the alarm states of a series with the state before it."""

    alarm_id: int
    alarm: Alarm
    before: AlarmState


def undelivered(connection: Connection, series: str) -> tuple[Transition, ...]:
    """Return the transitions of a series of which the webhook knows nothing yet, oldest first."""
    row, told = schema.alarm.c, webhook_delivery
    query = (
        select(schema.alarm, told.c.outcome)
        .outerjoin(told, told.c.alarm_id == row.alarm_id)
        .where(row.series == series)
        .order_by(row.alarm_id)
    )
    found: list[Transition] = []
    before: AlarmState = "warming_up"
    for each in connection.execute(query):
        if each.outcome is None:
            found.append(Transition(each.alarm_id, Alarm(series, each.state, each.since, each.verdict_id), before))
        before = each.state
    return tuple(found)


def keep_delivery(store: Store, transition: Transition, *, outcome: DeliveryOutcome, now: datetime) -> None:
    """Store what became of the message of a transition.

    Raises:
        RowRefused: that is stored already.
    """
    with store.write() as connection:
        values = {"alarm_id": transition.alarm_id, "outcome": outcome, "at": now}
        connection.execute(insert(webhook_delivery).values(values))


def outcomes(connection: Connection, series: str) -> tuple[DeliveryOutcome | None, ...]:
    """Return what became of the message of each transition of a series, oldest first; None while it is owed."""
    row, told = schema.alarm.c, webhook_delivery
    query = select(told.c.outcome).select_from(schema.alarm).outerjoin(told, told.c.alarm_id == row.alarm_id)
    return tuple(connection.scalars(query.where(row.series == series).order_by(row.alarm_id)))
