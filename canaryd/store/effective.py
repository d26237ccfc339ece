"""The samples that count, summed in the database: what `samples` gives of a span, straight from the raw rows.

Which sample counts is defined once, by the view `v_effective_sample`; every query here reads it.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, Double, and_, cast, distinct, false, func, select, true

from canaryd.records import HARNESS_FAILURES, OUTCOME_FAILURES
from canaryd.store import schema
from canaryd.store.rows import Cell, CellValue, SentinelChoice, Span, SpanCounts

_SAMPLE = schema.effective_sample


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
    row = _SAMPLE.c
    measured = {
        "score": row.score,
        "output_tokens": cast(row.output_tokens, Double),
        "log_output_tokens": func.ln(cast(row.output_tokens, Double), type_=Double),
    }[value]
    known = and_(row.score.is_not(None), true() if value == "score" else row.output_tokens > 0)
    query = (
        select(row.item_id, row.slot_date, func.count(), func.sum(measured), func.sum(measured * measured))
        .where(within(span), known, chosen_samples(sentinels, include_invalid))
        .group_by(row.item_id, row.slot_date)
        .order_by(row.item_id, row.slot_date)
    )
    return tuple(Cell(*each) for each in connection.execute(query))


def span_counts(connection: Connection, span: Span, *, include_invalid: bool = False) -> SpanCounts:
    """Return how many samples of a span were scored and how many failed, by kind; sentinels are left out."""
    row = _SAMPLE.c
    chosen = and_(within(span), chosen_samples("exclude", include_invalid))
    days = connection.execute(
        select(row.slot_date, func.count(distinct(row.item_id)))
        .where(chosen, row.score.is_not(None))
        .group_by(row.slot_date)
    )
    kinds = failures(connection, chosen)
    return SpanCounts(
        scored=connection.scalar(select(func.count(row.score)).where(chosen)) or 0,
        harness_failures={kind: n for kind, n in kinds.items() if kind in HARNESS_FAILURES},
        outcome_failures={kind: n for kind, n in kinds.items() if kind in OUTCOME_FAILURES},
        scored_items=dict(days.all()),
        fingerprints=frozenset(connection.scalars(select(row.fingerprint).distinct().where(chosen))),
    )


def within(span: Span) -> ColumnElement[bool]:
    """Return the condition that a sample belongs to a span."""
    row = _SAMPLE.c
    return and_(row.series == span.series, row.arm == span.arm, row.slot_date.between(span.first, span.last))


def chosen_samples(sentinels: SentinelChoice, include_invalid: bool) -> ColumnElement[bool]:
    """Return the condition that a sample is of the wanted kind and may be analysed."""
    row = _SAMPLE.c
    kind = {
        "exclude": row.measured.is_(true()),
        "only": row.sentinel.is_(true()),
        "judged": and_(row.measured.is_(false()), row.sentinel.is_(false())),
        "include": true(),
    }
    return and_(kind[sentinels], true() if include_invalid else _SAMPLE.c.invalid_reason.is_(None))


def failures(connection: Connection, chosen: ColumnElement[bool]) -> dict[str, int]:
    """Return how many of some samples failed, by kind."""
    kind = _SAMPLE.c.failure_kind
    rows = connection.execute(select(kind, func.count()).where(chosen, kind.is_not(None)).group_by(kind).order_by(kind))
    return dict(rows.all())
