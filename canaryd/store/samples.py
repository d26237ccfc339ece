"""Named queries on the samples that count: one per (series, arm, slot date, item, replicate), whatever the attempt.

Which sample counts is defined once, by the view `v_effective_sample`; every query here reads it.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Row,
    and_,
    case,
    cast,
    distinct,
    false,
    func,
    or_,
    select,
    true,
)

from canaryd.records import HARNESS_FAILURES, OUTCOME_FAILURES, Failure, Grade, SampleKey
from canaryd.store import schema, texts
from canaryd.store.rows import Cell, CellValue, SentinelChoice, Span, SpanCounts, StoredSample, Tally

_SAMPLE = schema.effective_sample
_TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens")


def final_samples(connection: Connection, series: str, *, arm: str, slot_date: date) -> frozenset[SampleKey]:
    """Return the samples of a slot that are never asked again: graded ones and outcome failures, of any attempt."""
    row = _SAMPLE.c
    final = or_(row.score.is_not(None), row.failure_kind.in_(sorted(OUTCOME_FAILURES)))
    rows = connection.execute(
        select(row.item_id, row.replicate).where(_within(Span(series, arm, slot_date, slot_date)), final)
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
    row = _SAMPLE.c
    measured = {
        "score": row.score,
        "output_tokens": cast(row.output_tokens, Double),
        "log_output_tokens": func.ln(cast(row.output_tokens, Double), type_=Double),
    }[value]
    known = and_(row.score.is_not(None), true() if value == "score" else row.output_tokens > 0)
    query = (
        select(row.item_id, row.slot_date, func.count(), func.sum(measured), func.sum(measured * measured))
        .where(_within(span), known, _chosen(sentinels, include_invalid))
        .group_by(row.item_id, row.slot_date)
        .order_by(row.item_id, row.slot_date)
    )
    return tuple(Cell(*each) for each in connection.execute(query))


def span_counts(connection: Connection, span: Span, *, include_invalid: bool = False) -> SpanCounts:
    """Return how many samples of a span were scored and how many failed, by kind; sentinels are left out."""
    row = _SAMPLE.c
    chosen = and_(_within(span), _chosen("exclude", include_invalid))
    days = connection.execute(
        select(row.slot_date, func.count(distinct(row.item_id)))
        .where(chosen, row.score.is_not(None))
        .group_by(row.slot_date)
    )
    failures = _failures(connection, chosen)
    return SpanCounts(
        scored=connection.scalar(select(func.count(row.score)).where(chosen)) or 0,
        harness_failures={kind: n for kind, n in failures.items() if kind in HARNESS_FAILURES},
        outcome_failures={kind: n for kind, n in failures.items() if kind in OUTCOME_FAILURES},
        scored_items=dict(days.all()),
        fingerprints=frozenset(connection.scalars(select(row.fingerprint).distinct().where(chosen))),
    )


def tally(connection: Connection, span: Span, *, include_invalid: bool = False) -> Tally:
    """Return the sums over the samples of a span, sentinels counted."""
    row = _SAMPLE.c
    chosen = and_(_within(span), _chosen("include", include_invalid))
    sums = select(
        func.count().label("samples"),
        func.count(row.score).label("scored"),
        func.coalesce(func.sum(row.score), 0.0).label("score_total"),
        func.coalesce(func.sum(case((row.passed.is_(true()), 1), else_=0)), 0).label("passed"),
        *(func.coalesce(func.sum(row[name]), 0).label(name) for name in _TOKENS),
    )
    found = connection.execute(sums.where(chosen)).mappings().one()
    return Tally(**found, failures=_failures(connection, chosen))


def samples(
    connection: Connection, span: Span, *, sentinels: SentinelChoice = "include", include_invalid: bool = False
) -> tuple[StoredSample, ...]:
    """Return the samples of a span with their texts, by day, item and replicate."""
    row, reply = _SAMPLE.c, schema.reply_text
    query = (
        select(_SAMPLE, reply.c.codec, reply.c.body)
        .outerjoin_from(_SAMPLE, reply, reply.c.sample_id == row.sample_id)
        .where(_within(span), _chosen(sentinels, include_invalid))
        .order_by(row.slot_date, row.item_id, row.replicate)
    )
    return tuple(_stored(each) for each in connection.execute(query))


def _within(span: Span) -> ColumnElement[bool]:
    row = _SAMPLE.c
    return and_(row.series == span.series, row.arm == span.arm, row.slot_date.between(span.first, span.last))


def _chosen(sentinels: SentinelChoice, include_invalid: bool) -> ColumnElement[bool]:
    kind = {"exclude": _SAMPLE.c.sentinel.is_(false()), "only": _SAMPLE.c.sentinel.is_(true()), "include": true()}
    return and_(kind[sentinels], true() if include_invalid else _SAMPLE.c.invalid_reason.is_(None))


def _failures(connection: Connection, chosen: ColumnElement[bool]) -> dict[str, int]:
    kind = _SAMPLE.c.failure_kind
    rows = connection.execute(select(kind, func.count()).where(chosen, kind.is_not(None)).group_by(kind).order_by(kind))
    return dict(rows.all())


def _stored(row: Row[Any]) -> StoredSample:
    values = row._mapping
    given = {name: values[name] for name in StoredSample.__slots__ if name in values}
    result = (
        Grade(row.score, row.answered, row.passed, row.grade_detail, row.grader)
        if row.failure_kind is None
        else Failure(row.failure_kind, row.failure_detail)
    )
    return StoredSample(
        **given,
        key=SampleKey(row.series, row.arm, row.slot_date, row.item_id, row.replicate),
        result=result,
        text=None if row.body is None else texts.unpack(row.codec, row.body),
    )
