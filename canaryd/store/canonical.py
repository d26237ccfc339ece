"""The rows that the ledger runs over, each with a readable name and one canonical form, the same on both databases.

A form holds the columns that say something about the measurement: no number that a database gave out (the names carry
what such numbers stand for), no null (so that a later column changes no old digest), texts only as their digests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, select

from canaryd.hashing import canonical_json, digest
from canaryd.store import schema
from canaryd.store import schema_contract as contract
from canaryd.store.schema_judges import judge_reading, judged_item
from canaryd.store.types import escape

_RUN = schema.run_start
_NUMBERS = frozenset(
    {
        *("run_id", "term", "sample_id", "validity_id", "verdict_id", "deviation_id"),
        *("event_id", "alarm_id", "usage_id", "regrade_id", "acknowledgement_id"),
    }
)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One stored row: its name for people, and the digest of its canonical form."""

    name: str
    digest: str


def series_rows(connection: Connection, series: str) -> Iterator[LedgerRow]:
    """Yield what registering a series stored: series, arms, panel and its items."""
    row = _one(connection, select(schema.series).where(schema.series.c.name == series))
    if row is None:
        return
    kept = {name: value for name, value in row.items() if name != "imported_at"}
    yield ledger_row(f"series {series}", kept | {"seed": str(row["seed"])})
    arm, panel, item = schema.arm, schema.panel, schema.panel_item
    panel_digest = row["panel_digest"]
    yield from _rows(connection, select(arm).where(arm.c.series == series), name=lambda each: f"arm {each['arm']}")
    query = select(panel).where(panel.c.digest == panel_digest)
    yield from _rows(connection, query, name=lambda each: f"panel {each['name']}")
    query = select(item).where(item.c.panel_digest == panel_digest)
    yield from _rows(connection, query, name=lambda each: f"item {each['item_id']}")
    query = select(judged_item).where(judged_item.c.series == series)
    yield from _rows(connection, query, name=lambda each: f"judged item {each['item_id']}")


def run_rows(connection: Connection, run_id: int) -> Iterator[LedgerRow]:
    """Yield a run's start, end and samples."""
    start = _one(connection, select(_RUN).where(_RUN.c.run_id == run_id))
    if start is None:
        return
    label = run_label(start)
    yield ledger_row(f"start of run {label}", start)
    end = select(schema.run_end).where(schema.run_end.c.run_id == run_id)
    yield from _rows(connection, end, name=lambda _: f"end of run {label}")
    query = select(schema.sample).where(schema.sample.c.run_id == run_id)
    yield from _rows(connection, query, name=lambda each: f"sample {each['item_id']}/{each['replicate']} of {label}")
    query = select(judge_reading).where(judge_reading.c.run_id == run_id)
    yield from _rows(connection, query, name=lambda _: f"anchors of the judge in {label}")


def validity_rows(connection: Connection, validity_id: int) -> Iterator[LedgerRow]:
    """Yield one validity note, with the run or sample that it names."""
    note, sample = schema.validity, schema.sample
    query = (
        select(note, _RUN.c.series, _RUN.c.arm, _RUN.c.slot_date, _RUN.c.attempt, sample.c.item_id, sample.c.replicate)
        .outerjoin_from(note, sample, sample.c.sample_id == note.c.sample_id)
        .join(_RUN, (_RUN.c.run_id == note.c.run_id) | (_RUN.c.run_id == sample.c.run_id))
        .where(note.c.validity_id == validity_id)
    )
    row = _one(connection, query)
    if row is not None:
        target = "" if row["item_id"] is None else f"sample {row['item_id']}/{row['replicate']} of "
        yield ledger_row(f"validity note on {target}{run_label(row)}", row)


def verdict_rows(connection: Connection, verdict_id: int) -> Iterator[LedgerRow]:
    """Yield one verdict, with the time of the one that it supersedes."""
    row = _one(connection, select(schema.verdict).where(schema.verdict.c.verdict_id == verdict_id))
    if row is not None:
        verdict = schema.verdict.c
        superseded = connection.scalar(select(verdict.decided_at).where(verdict.verdict_id == row["supersedes"]))
        kept = dict(row) | {"supersedes": superseded}
        yield ledger_row(f"verdict of epoch {row['epoch']} window {row['window_index']}", kept)


def deviation_rows(connection: Connection, deviation_id: int) -> Iterator[LedgerRow]:
    """Yield one deviation, and the epoch that it opened where it did."""
    row = _one(connection, select(contract.deviation).where(contract.deviation.c.deviation_id == deviation_id))
    if row is None:
        return
    yield ledger_row(f"deviation {row['kind']} of {row['slot_date'].isoformat()}", row)
    opened = select(contract.epoch).where(contract.epoch.c.deviation_id == deviation_id)
    yield from _rows(connection, opened, name=lambda each: f"epoch {each['epoch']}")


def _one(connection: Connection, query: Select[Any]) -> RowMapping | None:
    return connection.execute(query).mappings().one_or_none()


def _rows(connection: Connection, query: Select[Any], *, name: Callable[[RowMapping], str]) -> Iterator[LedgerRow]:
    """Yield the rows of a query, in an order that no database chooses."""
    found = connection.execute(query).mappings()
    yield from sorted((ledger_row(name(row), row) for row in found), key=lambda each: each.name)


def run_label(row: RowMapping) -> str:
    """Return how a run is called in the name of a row."""
    return f"{row['arm']} {row['slot_date'].isoformat()} attempt {row['attempt']}"


def ledger_row(name: str, values: Mapping[str, Any] | RowMapping) -> LedgerRow:
    """Return a row under its name, with the digest of its canonical form."""
    form = {key: _plain(value) for key, value in values.items() if value is not None and key not in _NUMBERS}
    return LedgerRow(name, digest(canonical_json(form)))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return digest(value)
    return escape(value) if isinstance(value, str) else value
