"""Named queries on what replies said of themselves: their ids, who answered, how long the questions were."""

from __future__ import annotations

from collections import defaultdict
from datetime import date

from sqlalchemy import ColumnElement, Connection, and_, func, select, true

from canaryd.records import OUTCOME_FAILURES
from canaryd.store import schema
from canaryd.store.rows import Span

_SAMPLE = schema.effective_sample


def response_seen(connection: Connection, series: str, *, response_id: str) -> bool:
    """Whether a stored sample of the series came with this response id."""
    sample, start = schema.sample, schema.run_start
    query = select(sample.c.sample_id).join_from(sample, start)
    found = connection.scalar(query.where(sample.c.response_id == response_id, start.c.series == series).limit(1))
    return found is not None


def resolved_models(connection: Connection, span: Span) -> dict[date, dict[str, int]]:
    """Return by slot date how many replies named each model as the one that answered; echoes are left out."""
    row = _SAMPLE.c
    rows = connection.execute(
        select(row.slot_date, row.resolved_model, func.count().label("n"))
        .where(_within(span), row.standing == "reported", row.resolved_model.is_not(None))
        .group_by(row.slot_date, row.resolved_model)
        .order_by(row.slot_date, row.resolved_model)
    )
    found: dict[date, dict[str, int]] = defaultdict(dict)
    for each in rows:
        found[each.slot_date][each.resolved_model] = each.n
    return dict(found)


def standings(connection: Connection, span: Span) -> dict[str, int]:
    """Return how many replies of a span reported another model name, echoed the request, or reported none."""
    row = _SAMPLE.c
    rows = connection.execute(
        select(row.standing, func.count().label("n"))
        .where(_within(span), row.standing.is_not(None))
        .group_by(row.standing)
        .order_by(row.standing)
    )
    return {each.standing: each.n for each in rows}


def input_tokens(connection: Connection, span: Span) -> dict[date, dict[str, float]]:
    """Return by slot date the mean input tokens of each item whose replies reported them."""
    row = _SAMPLE.c
    rows = connection.execute(
        select(row.slot_date, row.item_id, func.avg(row.input_tokens).label("mean"))
        .where(_within(span), row.input_tokens > 0)
        .group_by(row.slot_date, row.item_id)
        .order_by(row.slot_date, row.item_id)
    )
    found: dict[date, dict[str, float]] = defaultdict(dict)
    for each in rows:
        found[each.slot_date][each.item_id] = float(each.mean)
    return dict(found)


def outcome_failures(connection: Connection, span: Span) -> tuple[tuple[str, date, int], ...]:
    """Return (item, slot date, count) of the valid outcome failures of a span, sentinels left out."""
    row = _SAMPLE.c
    rows = connection.execute(
        select(row.item_id, row.slot_date, func.count().label("n"))
        .where(
            _within(span),
            row.failure_kind.in_(sorted(OUTCOME_FAILURES)),
            row.measured.is_(true()),
            row.invalid_reason.is_(None),
        )
        .group_by(row.item_id, row.slot_date)
        .order_by(row.item_id, row.slot_date)
    )
    return tuple((each.item_id, each.slot_date, each.n) for each in rows)


def _within(span: Span) -> ColumnElement[bool]:
    row = _SAMPLE.c
    return and_(row.series == span.series, row.arm == span.arm, row.slot_date.between(span.first, span.last))
