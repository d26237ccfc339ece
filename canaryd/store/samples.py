"""Named queries on the samples that count: one per (series, arm, slot date, item, replicate), whatever the attempt.

Which sample counts is defined once, by the view `v_effective_sample`. Sums come from the totals of closed days where
there are any (see `totals`), and are the same either way.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from sqlalchemy import Connection, Row, and_, case, func, or_, select, true

from canaryd.records import OUTCOME_FAILURES, Failure, Grade, SampleKey
from canaryd.store import effective, schema, totals
from canaryd.store.effective import chosen_samples, failures, within
from canaryd.store.replies import Replies
from canaryd.store.rows import Cell, CellValue, SentinelChoice, Span, SpanCounts, StoredSample, Tally

_SAMPLE = schema.effective_sample
_TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens")


def final_samples(connection: Connection, series: str, *, arm: str, slot_date: date) -> frozenset[SampleKey]:
    """Return the samples of a slot that are never asked again: graded ones and outcome failures, of any attempt."""
    row = _SAMPLE.c
    final = or_(row.score.is_not(None), row.failure_kind.in_(sorted(OUTCOME_FAILURES)))
    rows = connection.execute(
        select(row.item_id, row.replicate).where(within(Span(series, arm, slot_date, slot_date)), final)
    )
    return frozenset(SampleKey(series, arm, slot_date, each.item_id, each.replicate) for each in rows)


def item_day_cells(
    connection: Connection,
    span: Span,
    *,
    value: CellValue = "score",
    sentinels: SentinelChoice = "exclude",
    include_invalid: bool = False,
) -> tuple[Cell, ...]:
    """Return one cell per item and day that has a graded sample with a known value, by item and day.

    `value` is the score (in [0, 1]), the output tokens, or the natural logarithm of the output tokens; samples with
    an unreported number of tokens, or none, have no token value.
    """
    if sentinels == "exclude" and not include_invalid:
        return totals.cells_of(connection, span, value=value)
    return effective.item_day_cells(connection, span, value=value, sentinels=sentinels, include_invalid=include_invalid)


def item_day_means(
    connection: Connection, span: Span, *, value: CellValue = "score", include_invalid: bool = False
) -> dict[date, dict[str, float]]:
    """Return by slot date the mean of each item that has a cell in `item_day_cells`, sentinels left out."""
    if not include_invalid:
        return totals.means_of(connection, span, value=value)
    means: dict[date, dict[str, float]] = {}
    for cell in item_day_cells(connection, span, value=value, include_invalid=True):
        means.setdefault(cell.slot_date, {})[cell.item_id] = cell.total / cell.n
    return means


def span_counts(connection: Connection, span: Span, *, include_invalid: bool = False) -> SpanCounts:
    """Return how many samples of a span were scored and how many failed, by kind; sentinels are left out."""
    if include_invalid:
        return effective.span_counts(connection, span, include_invalid=True)
    return totals.counts_of(connection, span)


def invalid_counts(connection: Connection, span: Span) -> dict[str, int]:
    """Return how many samples of a span are invalid, by reason; sentinels are left out."""
    reason = _SAMPLE.c.invalid_reason
    chosen = and_(within(span), chosen_samples("exclude", include_invalid=True))
    rows = connection.execute(select(reason, func.count()).where(chosen, reason.is_not(None)).group_by(reason))
    return dict(rows.all())


def tally(connection: Connection, span: Span, *, include_invalid: bool = False) -> Tally:
    """Return the sums over the samples of a span, sentinels counted."""
    row = _SAMPLE.c
    chosen = and_(within(span), chosen_samples("include", include_invalid))
    sums = select(
        func.count().label("samples"),
        func.count(row.score).label("scored"),
        func.coalesce(func.sum(row.score), 0.0).label("score_total"),
        func.coalesce(func.sum(case((row.passed.is_(true()), 1), else_=0)), 0).label("passed"),
        *(func.coalesce(func.sum(row[name]), 0).label(name) for name in _TOKENS),
    )
    found = connection.execute(sums.where(chosen)).mappings().one()
    return Tally(**found, failures=failures(connection, chosen))


def samples(
    connection: Connection, span: Span, *, sentinels: SentinelChoice = "include", include_invalid: bool = False
) -> tuple[StoredSample, ...]:
    """Return the samples of a span with their texts, by day, item and replicate."""
    row, replies = _SAMPLE.c, Replies(connection)
    query = (
        select(_SAMPLE)
        .where(within(span), chosen_samples(sentinels, include_invalid))
        .order_by(row.slot_date, row.item_id, row.replicate)
    )
    return tuple(_stored(each, replies) for each in connection.execute(query).all())


def _stored(row: Row[Any], replies: Replies) -> StoredSample:
    values = row._mapping
    given = {name: values[name] for name in StoredSample._fields if name in values}
    result = (
        Grade(row.score, row.answered, row.passed, row.grade_detail, row.grader)
        if row.failure_kind is None
        else Failure(row.failure_kind, row.failure_detail)
    )
    return StoredSample(
        **given,
        key=SampleKey(row.series, row.arm, row.slot_date, row.item_id, row.replicate),
        result=result,
        text=replies.text(row.run_id, row.item_id, replicate=row.replicate),
    )
