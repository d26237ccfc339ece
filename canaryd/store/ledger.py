"""A hash chain over all that a series' verdicts rest on, so that nothing stored can change unseen.

Entry 1 of a series covers its registration; each closed run, validity note, verdict and deviation (with the epoch that
it opens) adds one, in the transaction that stores it:

    digest_k = sha256(digest_(k-1) LF digest of row 1 LF digest of row 2 ...)

Whoever has published a head can prove later that nothing before it was changed, left out or added. Beside its digest an
entry keeps a manifest, the names and short digests of its rows, so that a difference can be pinned to a row.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, RowMapping, Select, func, insert, select

from canaryd.hashing import digest
from canaryd.store import schema, texts
from canaryd.store import schema_contract as contract
from canaryd.store.canonical import LedgerRow, deviation_rows, run_rows, series_rows, validity_rows, verdict_rows

EntryKind = Literal["series", "run", "validity", "verdict", "deviation"]

#: Hexadecimal digits of a row's digest that the manifest keeps: enough to tell rows apart; the chain holds all.
_SHORT = 16
_ROWS: dict[EntryKind, Callable[[Connection, int], Iterator[LedgerRow]]] = {
    "run": run_rows,
    "validity": validity_rows,
    "verdict": verdict_rows,
    "deviation": deviation_rows,
}


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a series' chain: its number of entries and the last digest."""

    entries: int
    digest: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The first row that is not as the ledger has it: `row` is its name, `entry` the position in the chain."""

    change: Literal["differs", "is missing", "was added"]
    row: str
    entry: int | None

    def __str__(self) -> str:
        where = "outside the ledger" if self.entry is None else f"ledger entry {self.entry}"
        return f"{self.row} {self.change} ({where})"


def extend(connection: Connection, series: str, *, kind: EntryKind, row_id: int | None = None) -> None:
    """Add the entry of what was just stored to the chain of its series, in the same transaction."""
    # Only one transaction at a time may extend a chain; on SQLite a writer is alone anyway.
    connection.execute(
        select(schema.series.c.name).where(schema.series.c.name == series).with_for_update(key_share=True)
    )
    last = head(connection, series)
    rows = tuple(_rows(connection, series, kind=kind, row_id=row_id))
    connection.execute(
        insert(schema.ledger).values(
            series=series,
            position=1 if last is None else last.entries + 1,
            kind=kind,
            row_id=row_id,
            digest=_chained(None if last is None else last.digest, rows),
            manifest=zlib.compress(json.dumps([[row.name, _short(row)] for row in rows]).encode()),
        )
    )


def head(connection: Connection, series: str) -> Head | None:
    """Return the end of a series' chain; None for a series that does not exist."""
    row = schema.ledger.c
    query = select(row.position, row.digest).where(row.series == series).order_by(row.position.desc()).limit(1)
    found = connection.execute(query).one_or_none()
    return None if found is None else Head(found.position, found.digest)


def first_difference(connection: Connection, series: str) -> Difference | None:
    """Recompute the whole chain of a series from its rows and texts; return where it first disagrees, or None."""
    previous: str | None = None
    for position, entry in enumerate(connection.execute(_entries(series)).mappings(), start=1):
        if entry["position"] != position:
            return Difference("is missing", f"ledger entry {position}", position)
        rows = tuple(_rows(connection, series, kind=entry["kind"], row_id=entry["row_id"]))
        found = _against_manifest(rows, entry)
        if found is not None:
            return found
        if _chained(previous, rows) != entry["digest"]:
            return Difference("differs", f"ledger entry {position}", position)
        previous = entry["digest"]
    return _unledgered(connection, series) or _wrong_text(connection, series)


def _rows(connection: Connection, series: str, *, kind: EntryKind, row_id: int | None) -> Iterator[LedgerRow]:
    if kind == "series" or row_id is None:
        return series_rows(connection, series)
    return _ROWS[kind](connection, row_id)


def _entries(series: str) -> Select[Any]:
    return select(schema.ledger).where(schema.ledger.c.series == series).order_by(schema.ledger.c.position)


def _chained(previous: str | None, rows: tuple[LedgerRow, ...]) -> str:
    parts = [row.digest for row in rows]
    return digest("\n".join(parts if previous is None else [previous, *parts]).encode())


def _short(row: LedgerRow) -> str:
    return row.digest.removeprefix("sha256:")[:_SHORT]


def _against_manifest(rows: tuple[LedgerRow, ...], entry: RowMapping) -> Difference | None:
    position = entry["position"]
    try:
        kept = dict[str, str](json.loads(zlib.decompress(entry["manifest"])))
    except (zlib.error, ValueError):
        return Difference("differs", f"manifest of ledger entry {position}", position)
    for row in rows:
        if row.name not in kept:
            return Difference("was added", row.name, position)
        if kept.pop(row.name) != _short(row):
            return Difference("differs", row.name, position)
    missing = next(iter(kept), None)
    return None if missing is None else Difference("is missing", missing, position)


def _unledgered(connection: Connection, series: str) -> Difference | None:
    """Return the first closed run, note, verdict or deviation that has no entry."""
    start, sample, note, verdict = schema.run_start.c, schema.sample.c, schema.validity.c, schema.verdict.c
    deviation = contract.deviation.c
    of_series = start.series == series
    run = schema.run_end.join(schema.run_start, start.run_id == schema.run_end.c.run_id)
    noted = schema.validity.outerjoin(schema.sample, sample.sample_id == note.sample_id).join(
        schema.run_start, (start.run_id == note.run_id) | (start.run_id == sample.run_id)
    )
    queries: dict[EntryKind, Select[Any]] = {
        "run": select(start.run_id.label("row_id")).select_from(run).where(of_series),
        "validity": select(note.validity_id.label("row_id")).select_from(noted).where(of_series),
        "verdict": select(verdict.verdict_id.label("row_id")).where(verdict.series == series),
        "deviation": select(deviation.deviation_id.label("row_id")).where(deviation.series == series),
    }
    for kind, query in queries.items():
        ledgered = select(schema.ledger.c.row_id).where(schema.ledger.c.kind == kind)
        stored = query.subquery()
        row_id = connection.scalar(select(func.min(stored.c.row_id)).where(stored.c.row_id.not_in(ledgered)))
        if row_id is not None:
            return Difference("was added", next(_rows(connection, series, kind=kind, row_id=row_id)).name, None)
    return None


def _wrong_text(connection: Connection, series: str) -> Difference | None:
    """Return the first text whose digest is not its sample's, or that is gone without having expired."""
    start, sample, reply, expiry = schema.run_start.c, schema.sample.c, schema.reply_text.c, schema.text_expiry.c
    expired = select(func.max(expiry.before)).where(expiry.series == series).scalar_subquery()
    query = (
        select(
            sample.item_id,
            sample.replicate,
            sample.text_digest,
            start.arm,
            start.slot_date,
            reply.codec,
            reply.body,
            expired.label("expired"),
        )
        .select_from(schema.run_start)
        .join(schema.sample, sample.run_id == start.run_id)
        .outerjoin(schema.reply_text, reply.sample_id == sample.sample_id)
        .where(start.series == series)
        .order_by(start.slot_date, sample.sample_id)
        .execution_options(yield_per=1000)
    )
    with connection.execute(query) as rows:
        for row in rows:
            name = f"text of sample {row.item_id}/{row.replicate} of {row.arm} {row.slot_date.isoformat()}"
            if row.body is None:
                if row.text_digest is not None and (row.expired is None or row.slot_date >= row.expired):
                    return Difference("is missing", name, None)
            elif _text_digest(row.codec, row.body) != row.text_digest:
                return Difference("differs", name, None)
    return None


def _text_digest(codec: str, stored: bytes) -> str | None:
    try:
        return digest(texts.encode(texts.unpack(codec, stored)))
    except (zlib.error, UnicodeDecodeError):
        return None
