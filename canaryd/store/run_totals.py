"""Run totals: what the samples of a closed run add up to, whatever became of them, so that sums over years stay cheap.

They are derived like day totals: they may be dropped and made again at any time, `canaryd verify` holds each to its
samples, and a run without them (an open one) is summed from its samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, insert, select, true

from canaryd.store import schema

#: Kinds of tokens that are summed, as the samples' columns have them.
TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens")
_START, _SAMPLE, _TOTAL = schema.run_start.c, schema.sample.c, schema.run_total.c


@dataclass(slots=True)
class ArmTotal:
    """Sums over the stored samples of an arm; `tokens` by column, `failures` by kind."""

    samples: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)


def arm_totals(connection: Connection) -> dict[tuple[str, str], ArmTotal]:
    """Return by series and arm the sums over every stored sample."""
    found: dict[tuple[str, str], ArmTotal] = {}
    arm = (_START.series, _START.arm)
    kept = [func.sum(_TOTAL[name]).label(name) for name in ("samples", *TOKENS)]
    sums = select(*arm, *kept).join_from(schema.run_total, schema.run_start).group_by(*arm)
    rest = _SAMPLE.run_id.in_(connection.scalars(select(_START.run_id).where(_has_none())).all())
    for row in (*connection.execute(sums), *connection.execute(_sums(*arm, where=rest))):
        total = found.setdefault((row.series, row.arm), ArmTotal())
        total.samples += int(row.samples)
        total.tokens.update({name: int(row._mapping[name]) for name in TOKENS})
    failed = select(*arm, _TOTAL.failures).join_from(schema.run_total, schema.run_start).where(_TOTAL.failures != {})
    for row in connection.execute(failed):
        found[row.series, row.arm].failures.update(row.failures)
    for row in connection.execute(_failures(*arm, where=rest)):
        found[row.series, row.arm].failures[row.failure_kind] += row.n
    return found


def keep_run(connection: Connection, run_id: int) -> None:
    """Make the totals of a run that was just closed."""
    _keep(connection, where=_START.run_id == run_id)


def keep_missing(connection: Connection) -> None:
    """Make the totals of every closed run that has none: of a store that comes from an older schema, or an import."""
    closed = select(schema.run_end.c.run_id)
    _keep(connection, where=and_(_has_none(), _START.run_id.in_(closed)))


def wrong_totals(connection: Connection, series: str) -> Iterator[str]:
    """Yield the name of each run whose totals are not what its samples add up to."""
    of_series = _START.series == series
    again = {row["run_id"]: row for row in _rows(connection, where=of_series)}
    query = select(schema.run_total, _START.arm, _START.slot_date).join_from(schema.run_total, schema.run_start)
    for row in connection.execute(query.where(of_series).order_by(_TOTAL.run_id)).mappings():
        if any(row[name] != value for name, value in again[row["run_id"]].items()):
            yield f"total of run {row['arm']} {row['slot_date'].isoformat()}"


def _keep(connection: Connection, *, where: ColumnElement[bool]) -> None:
    for row in _rows(connection, where=where):
        connection.execute(insert(schema.run_total).values(row))


def _rows(connection: Connection, *, where: ColumnElement[bool]) -> Iterator[dict[str, Any]]:
    """Yield the totals of the runs that fulfil a condition."""
    nothing = {"samples": 0, **dict.fromkeys(TOKENS, 0)}
    found = {
        run_id: {"run_id": run_id, **nothing, "failures": {}}
        for run_id in connection.scalars(select(_START.run_id).where(where))
    }
    for row in connection.execute(_sums(_START.run_id, where=where)):
        found[row.run_id].update({name: int(row._mapping[name]) for name in nothing})
    for row in connection.execute(_failures(_START.run_id, where=where)):
        found[row.run_id]["failures"][row.failure_kind] = row.n
    yield from found.values()


def _sums(*group: ColumnElement[Any], where: ColumnElement[bool]) -> Select[Any]:
    sums = [func.coalesce(func.sum(_SAMPLE[name]), 0).label(name) for name in TOKENS]
    query = select(*group, func.count().label("samples"), *sums).join_from(schema.run_start, schema.sample)
    return query.where(where).group_by(*group)


def _failures(*group: ColumnElement[Any], where: ColumnElement[bool]) -> Select[Any]:
    query = select(*group, _SAMPLE.failure_kind, func.count().label("n")).join_from(schema.run_start, schema.sample)
    return query.where(where, _SAMPLE.failure_kind.is_not(None)).group_by(*group, _SAMPLE.failure_kind)


def _has_none() -> ColumnElement[bool]:
    return ~select(true()).where(_TOTAL.run_id == _START.run_id).exists()
