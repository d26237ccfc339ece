"""The flat table of a series' samples as a Parquet file, with typed columns."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Boolean, Connection, Date, DateTime, Double, Integer

from canaryd.errors import UsageError
from canaryd.store import schema
from canaryd.store.flat import COLUMNS, TEXT_COLUMN, table_rows

_ROWS_PER_GROUP = 20_000


def write_parquet(connection: Connection, series: str, *, path: Path, with_texts: bool) -> None:
    """Write the table that `flat.export_csv` yields; dates, times, numbers and flags keep their types.

    Raises:
        UsageError: the package pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise UsageError(
            "writing Parquet needs the package pyarrow, which is not installed; install canaryd[parquet], or export CSV"
        ) from None
    names = [*COLUMNS, *([TEXT_COLUMN] if with_texts else [])]
    described = pyarrow.schema([(name, _type(pyarrow, name)) for name in names])
    rows = table_rows(connection, series, with_texts=with_texts)
    with parquet.ParquetWriter(path, described) as writer:
        while group := list(islice(rows, _ROWS_PER_GROUP)):
            columns = [list(column) for column in zip(*group, strict=True)]
            writer.write_table(pyarrow.table(dict(zip(names, columns, strict=True)), schema=described))


def _type(pyarrow: Any, name: str) -> Any:
    if name == TEXT_COLUMN:
        return pyarrow.string()
    kind = schema.effective_sample.c[name].type
    kind = getattr(kind, "impl", kind)
    for known, type_ in (
        (Boolean, pyarrow.bool_()),
        (Integer, pyarrow.int64()),
        (Double, pyarrow.float64()),
        (DateTime, pyarrow.timestamp("us", tz="UTC")),
        (Date, pyarrow.date32()),
    ):
        if isinstance(kind, known):
            return type_
    return pyarrow.string()
