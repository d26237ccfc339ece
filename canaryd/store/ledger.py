"""A hash chain over all that a series' verdicts rest on, so that nothing stored can change unseen.

Entry 1 of a series covers its registration; each closed run, validity note, verdict and deviation (with the epoch that
it opens) adds one, and so do rows of the tables of `evidence`, in the transaction that stores them:

    digest_k = sha256(digest_(k-1) LF digest of row 1 LF digest of row 2 ...)

Whoever has published a head can prove later that nothing before it was changed, left out or added. Beside its digest an
entry keeps a manifest, the names and short digests of its rows, so that a difference can be pinned to a row; an entry
of kind `rows` is found again by those names, the others by what they are about.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, RowMapping, Select, Table, func, insert, select, tuple_

from canaryd.hashing import digest
from canaryd.store import schema
from canaryd.store import schema_contract as contract
from canaryd.store import schema_texts as said
from canaryd.store.canonical import LedgerRow, deviation_rows, run_rows, series_rows, validity_rows, verdict_rows
from canaryd.store.evidence import COVERED, covered_rows
from canaryd.store.replies import texts_of_run
from canaryd.store.texts import DamagedText

EntryKind = Literal["series", "run", "validity", "verdict", "deviation", "rows"]
Change = Literal["differs", "is missing", "was added"]

#: Hexadecimal digits of a row's digest that the manifest keeps: enough to tell rows apart; the chain holds all.
_SHORT = 16
#: From this schema revision on the ledger covers every row of `evidence.COVERED`.
WHOLE_SINCE = "0014"
#: Rows that one entry covers by name at most.
_ROWS_AN_ENTRY = 1000
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

    change: Change
    row: str
    entry: int | None

    def __str__(self) -> str:
        where = "outside the ledger" if self.entry is None else f"ledger entry {self.entry}"
        return f"{self.row} {self.change} ({where})"


def extend(connection: Connection, series: str, *, kind: EntryKind, row_id: int | None = None) -> None:
    """Add the entry of what was just stored to the chain of its series, in the same transaction."""
    _append(connection, series, kind=kind, row_id=row_id, rows=_rows(connection, series, kind=kind, row_id=row_id))


def add(
    connection: Connection, series: str, *, table: Table, rows: Iterable[Mapping[str, Any]]
) -> tuple[tuple[Any, ...], ...]:
    """Insert rows into a table of `evidence.COVERED`, cover them by an entry of their series, return their keys."""
    keys = tuple(tuple(connection.execute(insert(table).values(**row)).inserted_primary_key or ()) for row in rows)
    for start in range(0, len(keys), _ROWS_AN_ENTRY):
        inserted = tuple_(*table.primary_key.columns).in_(keys[start : start + _ROWS_AN_ENTRY])
        _append(connection, series, kind="rows", rows=covered_rows(connection, series, table=table, where=inserted))
    return keys


def adopt(connection: Connection, series: str) -> None:
    """Cover all rows that no entry names: those that a canaryd stored whose ledger did not run over them yet."""
    uncovered = _Uncovered(connection, series)
    for entry in connection.execute(_entries(series)).mappings():
        if entry["kind"] == "rows":
            for name, short in _manifest(entry):
                uncovered.take(name, short)
    _append(connection, series, kind="rows", rows=uncovered.rest())


def head(connection: Connection, series: str) -> Head | None:
    """Return the end of a series' chain; None for a series that does not exist."""
    row = schema.ledger.c
    query = select(row.position, row.digest).where(row.series == series).order_by(row.position.desc()).limit(1)
    found = connection.execute(query).one_or_none()
    return None if found is None else Head(found.position, found.digest)


def deviation_digests(connection: Connection, series: str) -> tuple[str, ...]:
    """Return the digest of each deviation's entry, in the order in which they were decided."""
    row = schema.ledger.c
    query = select(row.digest).where(row.series == series, row.kind == "deviation").order_by(row.row_id)
    return tuple(connection.scalars(query))


def first_difference(connection: Connection, series: str) -> Difference | None:
    """Recompute the whole chain of a series from its rows and texts; return where it first disagrees, or None."""
    previous: str | None = None
    uncovered = _Uncovered(connection, series)
    for position, entry in enumerate(connection.execute(_entries(series)).mappings(), start=1):
        if entry["position"] != position:
            return Difference("is missing", f"ledger entry {position}", position)
        try:
            manifest = _manifest(entry)
        except (zlib.error, ValueError):
            return Difference("differs", f"manifest of ledger entry {position}", position)
        rows: Sequence[LedgerRow] | Difference
        if entry["kind"] == "rows":
            rows = _named(uncovered, manifest, position=position)
        else:
            found = tuple(_rows(connection, series, kind=entry["kind"], row_id=entry["row_id"]))
            rows = _against(manifest, found, position=position) or found
        if isinstance(rows, Difference):
            return rows
        if _chained(previous, rows) != entry["digest"]:
            return Difference("differs", f"ledger entry {position}", position)
        previous = entry["digest"]
    for row in uncovered.rest():
        return Difference("was added", row.name, None)
    return _unledgered(connection, series) or _wrong_text(connection, series)


class _Uncovered:
    """The rows of a series that are covered by name, less those that entries have named so far."""

    def __init__(self, connection: Connection, series: str) -> None:
        self._rows: dict[str, list[LedgerRow]] = {}
        for table in COVERED:
            for row in covered_rows(connection, series, table=table):
                self._rows.setdefault(row.name, []).append(row)

    def take(self, name: str, short: str) -> LedgerRow | Change:
        """Return the row that an entry names and count it as covered; or what is wrong with it."""
        rows = self._rows.get(name, [])
        found = next((row for row in rows if _short(row) == short), None)
        if found is None:
            return "differs" if rows else "is missing"
        rows.remove(found)
        return found

    def rest(self) -> Iterator[LedgerRow]:
        """Yield the rows that are left."""
        return (row for rows in self._rows.values() for row in rows)


def _append(
    connection: Connection, series: str, *, kind: EntryKind, rows: Iterable[LedgerRow], row_id: int | None = None
) -> None:
    """Add an entry over some rows, unless there are none."""
    # Only one transaction at a time may extend a chain; on SQLite a writer is alone anyway.
    connection.execute(
        select(schema.series.c.name).where(schema.series.c.name == series).with_for_update(key_share=True)
    )
    covered = tuple(rows)
    if not covered:
        return
    last = head(connection, series)
    connection.execute(
        insert(schema.ledger).values(
            series=series,
            position=1 if last is None else last.entries + 1,
            kind=kind,
            row_id=row_id,
            digest=_chained(None if last is None else last.digest, covered),
            manifest=zlib.compress(json.dumps([[row.name, _short(row)] for row in covered]).encode()),
        )
    )


def _rows(connection: Connection, series: str, *, kind: EntryKind, row_id: int | None) -> Iterator[LedgerRow]:
    if kind == "series" or row_id is None:
        return series_rows(connection, series)
    return _ROWS[kind](connection, row_id)


def _entries(series: str) -> Select[Any]:
    return select(schema.ledger).where(schema.ledger.c.series == series).order_by(schema.ledger.c.position)


def _chained(previous: str | None, rows: Sequence[LedgerRow]) -> str:
    parts = [row.digest for row in rows]
    return digest("\n".join(parts if previous is None else [previous, *parts]).encode())


def _short(row: LedgerRow) -> str:
    return row.digest.removeprefix("sha256:")[:_SHORT]


def _manifest(entry: RowMapping) -> list[tuple[str, str]]:
    """Return the names and short digests of an entry's rows; raise zlib.error or ValueError where they are none."""
    return [(name, short) for name, short in json.loads(zlib.decompress(entry["manifest"]))]


def _against(manifest: Sequence[tuple[str, str]], rows: Sequence[LedgerRow], *, position: int) -> Difference | None:
    kept = dict(manifest)
    for row in rows:
        if row.name not in kept:
            return Difference("was added", row.name, position)
        if kept.pop(row.name) != _short(row):
            return Difference("differs", row.name, position)
    missing = next(iter(kept), None)
    return None if missing is None else Difference("is missing", missing, position)


def _named(
    uncovered: _Uncovered, manifest: Sequence[tuple[str, str]], *, position: int
) -> tuple[LedgerRow, ...] | Difference:
    rows = []
    for name, short in manifest:
        found = uncovered.take(name, short)
        if not isinstance(found, LedgerRow):
            return Difference(found, name, position)
        rows.append(found)
    return tuple(rows)


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
    """Return the first text whose digest is not its sample's, that is gone without having expired, or was added."""
    start, expiry = schema.run_start.c, said.text_expiry.c
    expired = connection.scalar(select(func.max(expiry.before)).where(expiry.series == series))
    runs = select(start.run_id, start.arm, start.slot_date).where(start.series == series)
    for run in connection.execute(runs.order_by(start.slot_date, start.run_id)).all():
        change = _changed_text(connection, run.run_id, has_expired=expired is not None and run.slot_date < expired)
        if change is not None:
            return Difference(change[0], f"{change[1]} of {run.arm} {run.slot_date.isoformat()}", None)
    return None


def _changed_text(connection: Connection, run_id: int, *, has_expired: bool) -> tuple[Change, str] | None:
    try:
        stored = texts_of_run(connection, run_id)
    except DamagedText:
        return "differs", "a text"
    sample = schema.sample.c
    query = select(sample.item_id, sample.replicate, sample.text_digest).where(sample.run_id == run_id)
    for row in connection.execute(query.order_by(sample.sample_id)):
        body = stored.pop((row.item_id, row.replicate), None)
        name = f"text of sample {row.item_id}/{row.replicate}"
        if body is None:
            if row.text_digest is not None and not has_expired:
                return "is missing", name
        elif digest(body) != row.text_digest:
            return "was added" if row.text_digest is None else "differs", name
    return next((("was added", f"text of sample {item}/{n}") for item, n in stored), None)
