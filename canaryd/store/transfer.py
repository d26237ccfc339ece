"""A series out of one store and into another, without loss: JSON lines that hold every row, ledger included.

Line 1 names the format, the series, the schema and whether the texts are inside; each further line is one row under its
table's name, parents first; the last line counts them, so that a cut-off file is noticed. Nulls are left out. Bytes are
base64 text; so is the rare text that JSON cannot hold (lone surrogates), as an object `{"base64": ...}` of its UTF-8.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import Column, Connection, LargeBinary, Select, Table, func, insert, or_, select
from sqlalchemy.exc import DataError, IntegrityError, OperationalError, StatementError

from canaryd.errors import UsageError, VerifyFailed
from canaryd.store import ledger, replies, run_totals, schema, texts, totals
from canaryd.store import schema_contract as contract
from canaryd.store import schema_texts as said
from canaryd.store.engine import Store
from canaryd.store.metadata import metadata
from canaryd.store.types import AnyText, Day, UTCDateTime

_FORMAT = "canaryd-export-1"
#: What rows of the ledger refer to, by their kind.
_LEDGERED = {
    "run": schema.run_start,
    "validity": schema.validity,
    "verdict": schema.verdict,
    "deviation": contract.deviation,
}
#: Rows under a digest of their content, which several series may share.
_SHARED = frozenset({"panel", "panel_item", "fingerprint"})


def export_tables() -> tuple[Table, ...]:
    """Return the tables of an export, parents before children, the ledger last; what is derived is left out."""
    left_out = {schema.lease, schema.ledger, *schema.DERIVED}
    kept = [table for table in metadata.sorted_tables if table not in left_out]
    return (*kept, schema.ledger)


def export_jsonl(connection: Connection, series: str, *, with_texts: bool) -> Iterator[str]:
    """Yield the lines of a whole series, with or without the texts of its replies (digests are always there)."""
    yield _line(format=_FORMAT, series=series, schema=schema.REVISIONS[-1], texts=with_texts)
    rows = 0
    for table in export_tables():
        if table in {said.reply_text, said.text_block} and not with_texts:
            continue
        query = rows_of(table, series).order_by(*table.primary_key.columns).execution_options(yield_per=1000)
        with connection.execute(query) as found:
            for row in found.mappings():
                rows += 1
                yield _line(
                    table=table.name, row={name: _plain(value) for name, value in row.items() if value is not None}
                )
    yield _line(rows=rows)


def import_jsonl(store: Store, lines: Iterable[str], *, now: datetime) -> str:
    """Store the series of an export, marked as imported, and return its name: all of it or nothing.

    The ledger comes with it, so that `ledger.first_difference` proves the import equal to what was exported.

    Raises:
        UsageError: the lines are no whole export, are of a newer schema, or the store has a series of that name.
        VerifyFailed: the rows are not as the ledger of the export has them; the text names the first.
    """
    remaining = iter(lines)
    header = _parsed(next(remaining, ""), number=1)
    if header.get("format") != _FORMAT:
        raise UsageError(
            f"line 1 is not the header of a {_FORMAT} file; give one that `canaryd export --series NAME FILE` wrote"
        )
    if not {"series", "schema", "texts"} <= set(header):
        raise UsageError("line 1 does not say series, schema and texts as a header does; export the series again")
    series = str(header["series"])
    with store.write() as connection:
        if connection.scalar(select(schema.series.c.name).where(schema.series.c.name == series)) is not None:
            raise UsageError(f"series {series!r} is already in {store.name}; import it into another store")
        _import_rows(connection, remaining, now=now)
        totals.keep_missing(connection)
        run_totals.keep_missing(connection)
        if str(header["schema"]) < ledger.WHOLE_SINCE:
            ledger.adopt(connection, series)
        if not header["texts"]:
            _let_all_texts_expire(connection, series, now=now)
        _require_as_in_ledger(connection, series)
    replies.pack_closed(store, series)
    return series


def _require_as_in_ledger(connection: Connection, series: str) -> None:
    """Refuse rows that their ledger contradicts; without any ledger there is nothing to hold them to."""
    difference = ledger.first_difference(connection, series) if ledger.head(connection, series) else None
    if difference is not None:
        raise VerifyFailed(f"{series}: {difference}, so that nothing is imported; export the series again")


def _import_rows(connection: Connection, lines: Iterator[str], *, now: datetime) -> None:
    tables = {table.name: table for table in export_tables()}
    ids: dict[tuple[Table, int], int] = {}
    number = 1
    for number, text in enumerate(lines, start=2):
        line = _parsed(text, number=number)
        if "rows" in line:
            if line["rows"] != number - 2:
                raise UsageError(
                    f"line {number} counts {line['rows']} rows after {number - 2}; export the series again"
                )
            if any(rest.strip() for rest in lines):
                raise UsageError(f"something stands after line {number}, the last of the export; take it away")
            return
        table, given = tables.get(str(line.get("table"))), line.get("row")
        if table is None or not isinstance(given, dict) or not set(given) <= set(table.c.keys()):
            raise UsageError(
                f"line {number} holds what this canaryd does not know; install the newer one that wrote it"
            )
        try:
            row = {name: _value(table.c[name], value) for name, value in given.items()}
            _import_row(connection, table, row=row | ({"imported_at": now} if table is schema.series else {}), ids=ids)
        except (IntegrityError, DataError, OperationalError):
            raise
        except (StatementError, ValueError, TypeError, KeyError, OverflowError) as refused:
            error = refused.orig if isinstance(refused, StatementError) and refused.orig else refused
            raise UsageError(
                f"line {number} is no row of table {table.name} ({error}); export the series again"
            ) from error
    raise UsageError(f"the export ends at line {number} without its last line; copy the whole file")


def _import_row(
    connection: Connection, table: Table, *, row: dict[str, Any], ids: dict[tuple[Table, int], int]
) -> None:
    """Insert one row; numbers that a database gave out become those of this one."""
    for key in table.foreign_keys:
        parent, name = key.column.table, key.parent.name
        if parent.autoincrement_column is not None and row.get(name) is not None:
            row[name] = ids[parent, row[name]]
    if table is schema.ledger and row["kind"] in _LEDGERED:
        row["row_id"] = ids[_LEDGERED[row["kind"]], row["row_id"]]
    own = table.autoincrement_column
    exported = None if own is None else row.pop(own.name)
    if table.name in _SHARED and _is_there(connection, table, row=row):
        return
    inserted = connection.execute(insert(table).values(row)).inserted_primary_key
    if exported is not None:
        assert inserted is not None
        ids[table, exported] = inserted[0]


def _is_there(connection: Connection, table: Table, *, row: Mapping[str, Any]) -> bool:
    same = (column == row[column.name] for column in table.primary_key.columns)
    return connection.execute(select(*table.primary_key.columns).where(*same)).first() is not None


def _let_all_texts_expire(connection: Connection, series: str, *, now: datetime) -> None:
    start = schema.run_start.c
    last: date | None = connection.scalar(select(func.max(start.slot_date)).where(start.series == series))
    if last is not None:
        connection.execute(insert(said.text_expiry).values(series=series, before=last + timedelta(days=1), at=now))


def rows_of(table: Table, series: str) -> Select[Any]:
    """Select the rows of a table that belong to a series."""
    start = schema.run_start.c
    runs = select(start.run_id).where(start.series == series)
    members: dict[Column[Any], Select[Any]] = {
        start.run_id: runs,
        schema.sample.c.sample_id: select(schema.sample.c.sample_id).where(schema.sample.c.run_id.in_(runs)),
    }
    query = select(table)
    if table is schema.series:
        return query.where(schema.series.c.name == series)
    if "series" in table.c:
        return query.where(table.c.series == series)
    if table.name in _SHARED:
        used = schema.series.c.panel_digest if table.name.startswith("panel") else start.fingerprint
        owner = schema.series.c.name if table.name.startswith("panel") else start.series
        return query.where(next(iter(table.c)).in_(select(used).where(owner == series)))
    return query.where(
        or_(*(key.parent.in_(members[key.column]) for key in table.foreign_keys if key.column in members))
    )


def _line(**values: Any) -> str:
    return json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _parsed(text: str, *, number: int) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict):
        raise UsageError(
            f"line {number} is no JSON object; give the file that `canaryd export --series NAME FILE` wrote, whole"
        )
    return line


def _plain(value: Any) -> Any:
    """Return what JSON holds for a column's value."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        return {"base64": base64.b64encode(texts.encode(value)).decode()}
    return value


def _value(column: Column[Any], value: Any) -> Any:
    """Return a column's value from what JSON held."""
    if isinstance(column.type, LargeBinary):
        return base64.b64decode(value)
    if isinstance(column.type, UTCDateTime):
        return datetime.fromisoformat(value)
    if isinstance(column.type, Day):
        return date.fromisoformat(value)
    if isinstance(column.type, AnyText) and isinstance(value, dict):
        return base64.b64decode(value["base64"]).decode("utf-8", "surrogatepass")
    return value
