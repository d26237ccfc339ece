"""Which samples of two arms were not taken together, so that nothing may pair them."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime

from sqlalchemy import Connection, select

from canaryd.store import schema
from canaryd.store.rows import Span


def caught_up_alone(connection: Connection, span: Span, *, partner: str) -> frozenset[tuple[str, date]]:
    """Return the items and days of a span whose samples one of the two arms took in a late catch-up without the other.

    A run is a late catch-up when it is not the first attempt of its arm at the slot. It was alone when the other arm
    has no run with samples in the same claim; the runs of one claim begin at one moment.
    """
    start, arms = schema.run_start.c, (span.arm, partner)
    in_span = (start.series == span.series, start.arm.in_(arms), start.slot_date.between(span.first, span.last))
    late = connection.execute(
        select(start.run_id, start.arm, start.slot_date, start.started_at).where(*in_span, start.attempt > 1)
    ).all()
    if not late:
        return frozenset()
    asked = schema.sample.c
    days = {run.slot_date for run in late}
    has_samples = select(asked.run_id).where(asked.run_id == start.run_id).exists()
    claims: dict[tuple[date, datetime], set[str]] = defaultdict(set)
    query = select(start.arm, start.slot_date, start.started_at).where(*in_span, start.slot_date.in_(days), has_samples)
    for run in connection.execute(query):
        claims[run.slot_date, run.started_at].add(run.arm)
    alone = [run.run_id for run in late if claims[run.slot_date, run.started_at] == {run.arm}]
    row = schema.effective_sample.c
    counted = select(row.item_id, row.slot_date).where(
        row.series == span.series, row.arm.in_(arms), row.slot_date.in_(days), row.run_id.in_(alone)
    )
    return frozenset((each.item_id, each.slot_date) for each in connection.execute(counted.distinct()))
