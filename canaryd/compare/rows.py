"""Reading result files: CSV, TSV, JSON lines or Parquet become rows, each with the place it stands at."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from canaryd.errors import ConfigError, UsageError
from canaryd.files import read_bytes, read_text


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a file: `where` is `file:line` (`file:row` of Parquet), `values` are by column."""

    where: str
    values: Mapping[str, Any]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a result file, whose kind is told by the end of its name.

    Raises:
        UsageError: the name ends like none of the known kinds, or Parquet needs a package that is not installed.
        ConfigError: the file cannot be read as written, or holds no row.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UsageError(
            f"{path}: a file that ends in {path.suffix!r} is of no known kind; give one of {', '.join(_READERS)}"
        )
    rows = list(reader(path))
    if not rows:
        raise ConfigError(f"{path}: holds no row, so there is nothing to compare; give a file of results")
    return rows


def select(rows: Iterable[Row], where: Mapping[str, str], *, path: Path) -> list[Row]:
    """Return the rows whose columns hold the wanted values, compared as text.

    Raises:
        UsageError: no row does; the message names what the first unmatched column holds.

    >>> rows = [Row("f:2", {"model": "a", "day": 1}), Row("f:3", {"model": "b", "day": 2})]
    >>> [row.where for row in select(rows, {"day": "2"}, path=Path("f"))]
    ['f:3']
    """
    left = list(rows)
    for column, wanted in where.items():
        held = dict.fromkeys(as_text(row.values[column]) for row in left if column in row.values)
        left = [row for row in left if column in row.values and as_text(row.values[column]) == wanted]
        if not left:
            seen = f"it holds {', '.join(list(held)[:8])}" if held else "there is no such column"
            raise UsageError(f"{path}: no row that is left has {column} = {wanted!r} ({seen}); mend the --where")
    return left


def as_text(value: object) -> str:
    """Return a cell as text: a JSON value that is no text as JSON, nothing as the empty text.

    >>> as_text("x"), as_text(True), as_text(None)
    ('x', 'true', '')
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _delimited(path: Path, delimiter: str) -> Iterator[Row]:
    text = read_text(path).removeprefix("\ufeff")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        _refuse_twice(header, path)
        for cells in reader:
            if cells:
                yield _delimited_row(cells, header=header, where=f"{path}:{reader.line_num}")
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: this is not valid CSV ({error}); mend that line") from None


def _refuse_twice(header: Sequence[str], path: Path) -> None:
    if twice := next((name for name in header if header.count(name) > 1), None):
        raise ConfigError(f"{path}:1: the column {twice!r} stands twice, so its value is not certain; rename one")


def _delimited_row(cells: Sequence[str], *, header: Sequence[str], where: str) -> Row:
    if len(cells) != len(header):
        raise ConfigError(
            f"{where}: has {len(cells)} cells under {len(header)} columns, so they cannot be matched; mend that line"
        )
    return Row(where, dict(zip(header, cells, strict=True)))


def _json_lines(path: Path) -> Iterator[Row]:
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{where}: this is not valid JSON ({error}); write one object on a line") from None
        if not isinstance(values, dict):
            raise ConfigError(f"{where}: is JSON, but no object; write one object on a line")
        yield Row(where, values)


def _parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise UsageError(
            f"{path}: reading Parquet needs the package pyarrow, which is not installed; "
            "install canaryd[parquet], or give the results as CSV or JSON lines"
        ) from None
    data = read_bytes(path)
    try:
        table = parquet.read_table(pyarrow.BufferReader(data))
    except pyarrow.ArrowException as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f"{path}: cannot be read as Parquet ({first}); write the file again") from None
    for number, values in enumerate(table.to_pylist(), start=1):
        yield Row(f"{path}:{number}", values)


_READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = MappingProxyType(
    {
        ".csv": lambda path: _delimited(path, ","),
        ".tsv": lambda path: _delimited(path, "\t"),
        ".jsonl": _json_lines,
        ".ndjson": _json_lines,
        ".parquet": _parquet,
    }
)
