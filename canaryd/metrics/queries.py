"""The sums over the store that only the metrics ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection, and_, case, distinct, func, select, text, true
from sqlalchemy.sql.elements import ColumnElement

from canaryd.metrics.catalogue import TOKEN_KINDS
from canaryd.store import schema

ArmKey = tuple[str, str]
#: More names than this answer one run only when something is very wrong; the most frequent ones stand for all.
RESOLVED_SHOWN = 8
#: The outcomes of a run that asked something.
MEASURED = ("abandoned", "completed", "config_error", "incomplete")


@dataclass(frozen=True, slots=True)
class SlotFigures:
    """What counts of one arm in one slot; `samples` and `failures` hold sentinels, the scores and tokens do not."""

    samples: int
    scored: int
    score_total: float
    token_means: Mapping[str, float | None]
    failures: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A model name that answered, and its standing."""

    model: str
    standing: str


def run_counts(connection: Connection) -> dict[ArmKey, int]:
    """Return how many runs of each arm asked something."""
    start, end = schema.run_start, schema.run_end
    asked = end.c.outcome.is_(None) | end.c.outcome.not_in(("missed", "refused"))
    query = select(start.c.series, start.c.arm, func.count()).outerjoin_from(start, end).where(asked)
    return {(row[0], row[1]): row[2] for row in connection.execute(query.group_by(start.c.series, start.c.arm))}


def first_date_shown(connection: Connection, series: str) -> date | None:
    """Return the first date of the latest measured runs of all arms, None where the series has no run.

    Of an arm that was never measured its latest run counts.
    """
    start, end = schema.run_start.c, schema.run_end.c
    measured = func.max(case((end.outcome.in_(MEASURED), start.slot_date)))
    query = select(func.coalesce(measured, func.max(start.slot_date)))
    query = query.outerjoin_from(schema.run_start, schema.run_end).where(start.series == series).group_by(start.arm)
    return min(connection.scalars(query), default=None)


def missed_slots(connection: Connection) -> dict[str, int]:
    """Return how many slot dates of each series no process ran."""
    start, end = schema.run_start, schema.run_end
    query = select(start.c.series, func.count(distinct(start.c.slot_date))).join_from(start, end)
    rows = connection.execute(query.where(end.c.outcome == "missed").group_by(start.c.series))
    return {row[0]: row[1] for row in rows}


def slot_figures(connection: Connection, series: str, *, arm: str, slot_date: date) -> SlotFigures:
    """Return the figures of one arm in one slot."""
    row = schema.effective_sample.c
    mine = _slot(series, arm=arm, slot_date=slot_date)
    measured = and_(row.score.is_not(None), row.measured.is_(true()))
    sums = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(case((measured, 1), else_=0)), 0),
            func.coalesce(func.sum(case((measured, row.score), else_=0.0)), 0.0),
            *(func.avg(case((row.measured.is_(true()), row[f"{kind}_tokens"]))) for kind in TOKEN_KINDS),
        ).where(mine)
    ).one()
    failed = select(row.failure_kind, func.count()).where(mine, row.failure_kind.is_not(None))
    return SlotFigures(
        samples=sums[0],
        scored=sums[1],
        score_total=float(sums[2]),
        token_means={
            kind: None if mean is None else float(mean) for kind, mean in zip(TOKEN_KINDS, sums[3:], strict=True)
        },
        failures={each[0]: each[1] for each in connection.execute(failed.group_by(row.failure_kind))},
    )


def resolved_models(connection: Connection, series: str, *, arm: str, slot_date: date) -> tuple[Resolved, ...]:
    """Return who answered in a slot, the most frequent first and a bounded number of them."""
    row = schema.effective_sample.c
    name = func.coalesce(row.resolved_model, "")
    query = select(name, row.standing).where(_slot(series, arm=arm, slot_date=slot_date), row.standing.is_not(None))
    ranked = query.group_by(name, row.standing).order_by(func.count().desc(), name).limit(RESOLVED_SHOWN)
    return tuple(Resolved(each[0], each[1]) for each in connection.execute(ranked))


def invalid_reasons(connection: Connection, run_id: int) -> frozenset[str]:
    """Return the reasons why a run must not be analysed."""
    row = schema.validity.c
    return frozenset(connection.scalars(select(row.reason).where(row.run_id == run_id)))


def store_bytes(connection: Connection) -> int:
    """Return the size of the store."""
    if connection.dialect.name == "sqlite":
        pages, size = (connection.scalar(text(f"PRAGMA {name}")) for name in ("page_count", "page_size"))
        return int(pages or 0) * int(size or 0)
    return int(connection.scalar(text("SELECT pg_database_size(current_database())")) or 0)


def _slot(series: str, *, arm: str, slot_date: date) -> ColumnElement[bool]:
    row = schema.effective_sample.c
    return and_(row.series == series, row.arm == arm, row.slot_date == slot_date)
