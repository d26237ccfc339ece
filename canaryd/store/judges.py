"""What is kept of judged items: which they are, how the judge judged its anchors in each slot, and what it used up."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, select

from canaryd.judging import Reading
from canaryd.records import JUDGE_GRADER, Item
from canaryd.store import schema
from canaryd.store.engine import Store
from canaryd.store.harness import Spending, keep_of_run
from canaryd.store.schema_judges import judge_reading, judge_usage, judged_item

if TYPE_CHECKING:
    from canaryd.store.lease import Lease


def add_judged_items(connection: Connection, series: str, *, items: Iterable[Item], measured: bool) -> None:
    """Store which items of a series a judge grades, and whether the registration lets them into the estimates."""
    for item in items:
        if item.is_judged:
            connection.execute(insert(judged_item).values(series=series, item_id=item.item_id, measured=measured))


def judged_items(connection: Connection, series: str) -> dict[str, bool]:
    """Return the items of a series that a judge grades, each with whether it enters the estimates."""
    row = judged_item.c
    query = select(row.item_id, row.measured).where(row.series == series).order_by(row.item_id)
    return {each.item_id: each.measured for each in connection.execute(query)}


def keep_reading(store: Store, reading: Reading, *, run_id: int, lease: Lease) -> None:
    """Store how the judge judged its anchors before the items of a run; raises Locked when the lease is lost."""
    # Imported here: whoever only reads, `canaryd status` above all, holds no lease.
    from canaryd.store.lease import require_lease

    values = {
        "identity": reading.identity,
        "resolved": list(reading.resolved),
        "said": dict(reading.said),
        "people": dict(reading.people),
    }
    with store.write() as connection:
        require_lease(connection, lease)
        connection.execute(insert(judge_reading).values(run_id=run_id, **values))


def readings(connection: Connection, series: str, *, last: date | None = None) -> tuple[Reading, ...]:
    """Return the readings of a series up to a slot date, oldest first, the latest of each slot."""
    start, row = schema.run_start.c, judge_reading.c
    query = select(start.slot_date, start.epoch, judge_reading).join_from(judge_reading, schema.run_start)
    query = query.where(start.series == series).order_by(start.slot_date, row.run_id)
    if last is not None:
        query = query.where(start.slot_date <= last)
    by_slot = {
        each.slot_date: Reading(
            each.slot_date,
            each.epoch,
            each.identity,
            said=each.said,
            people=each.people,
            resolved=tuple(each.resolved),
        )
        for each in connection.execute(query)
    }
    return tuple(by_slot.values())


def keep_judge_usage(store: Store, spending: Spending, *, run_id: int, lease: Lease) -> None:
    """Store what a judge used up beside a run, calls that failed included; raises Locked when the lease is lost."""
    values = {name: getattr(spending, name) for name in Spending.__slots__}
    keep_of_run(store, judge_usage, run_id=run_id, lease=lease, values=values)


def judge_spending(connection: Connection, series: str, *, first: date, last: date) -> dict[tuple[str, date], Spending]:
    """Return what the judge of a series used up in a span of slots, as of an arm that has the judge's name."""
    start, row = schema.run_start.c, judge_usage.c
    sums = [func.sum(row[name]).label(name) for name in Spending.__slots__]
    rows = connection.execute(
        select(start.slot_date, *sums)
        .join_from(judge_usage, schema.run_start)
        .where(start.series == series, start.slot_date.between(first, last))
        .group_by(start.slot_date)
    )
    return {
        (JUDGE_GRADER, each.slot_date): Spending(int(each.calls), int(each.input_tokens), int(each.output_tokens))
        for each in rows
    }
