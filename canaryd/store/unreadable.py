"""Which row holds a value that cannot be read as its column's type."""

from __future__ import annotations

from sqlalchemy import Column, Connection, Text, type_coerce

from canaryd.store.transfer import export_tables, rows_of
from canaryd.store.types import CanonicalJson, Day, UnreadableValue, UTCDateTime


def first_unreadable(connection: Connection, series: str) -> str | None:
    """Return column and row of the first value of a series that cannot be read, as a clause; None where all can be."""
    for table in export_tables():
        keys = [type_coerce(column, Text).label(f"key_{column.name}") for column in table.primary_key.columns]
        for column in table.columns:
            if isinstance(column.type, UTCDateTime | Day | CanonicalJson):
                query = rows_of(table, series).with_only_columns(*keys, type_coerce(column, Text).label("stored"))
                for row in connection.execute(query.order_by(*table.primary_key.columns)):
                    if not _is_readable(connection, column, stored=row.stored):
                        place = " ".join(str(part) for part in row[:-1])
                        return f"{column.name} of row {place} of table {table.name} cannot be read"
    return None


def _is_readable(connection: Connection, column: Column[object], *, stored: object) -> bool:
    assert isinstance(column.type, UTCDateTime | Day | CanonicalJson)
    try:
        column.type.process_result_value(stored, connection.dialect)  # type: ignore[arg-type] # whatever is stored
    except UnreadableValue:
        return False
    return True
