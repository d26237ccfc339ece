"""The samples of a series as one flat CSV table, for a spreadsheet or a statistics program."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, select

from canaryd.store import schema
from canaryd.store.replies import Replies
from canaryd.store.types import escape

#: Each column of the table and what it holds: the data dictionary of the CSV export.
COLUMNS = {
    "series": "name of the series",
    "arm": "name of the arm",
    "slot_date": "UTC date of the slot, YYYY-MM-DD",
    "attempt": "which attempt of that day the sample comes from, from 1",
    "item_id": "id of the item",
    "replicate": "which of the item's repetitions on that day, from 0",
    "family": "family of the item, empty for a sentinel",
    "cluster": "template that the item comes from",
    "sentinel": "1 for an item that watches the model and is left out of every estimate, else 0",
    "measured": "1 for an item that enters the estimates: no sentinel, and no judged item unless that was registered",
    "asked_at": "UTC time of the first request, RFC 3339",
    "ended_at": "UTC time of the last reply or failure, RFC 3339",
    "calls": "provider calls that it took",
    "score": "grade in [0, 1], empty for a failure",
    "answered": "1 if the reply held an answer, 0 if not, empty for a failure",
    "passed": "1 if the grader passed it, 0 if not, empty for a failure",
    "grader": "grader and its version",
    "failure_kind": "why there is no grade, empty for a graded sample",
    "stop": "why the model stopped, empty where there was no reply",
    "resolved_model": "what the provider said answered",
    "standing": "reported, echo (repeats the request) or not_reported",
    "response_id": "the provider's id of the response",
    "input_tokens": "tokens of the request, empty where not reported",
    "output_tokens": "tokens of the reply, reasoning included, empty where not reported",
    "reasoning_tokens": "tokens of reasoning, empty where not reported",
    "system_fingerprint": "the backend that the provider named, empty where it named none",
    "text_digest": "SHA-256 of the reply's UTF-8 bytes, empty where there was no reply",
    "invalid_reason": "why the sample must not be analysed, empty for a valid one",
}
#: The last column of an export with texts; backslashes, NUL and lone surrogates in it are written as escapes.
TEXT_COLUMN = "text"


def export_csv(connection: Connection, series: str, *, with_texts: bool) -> Iterator[str]:
    """Yield the lines of the table, header first: one sample that counts a line, invalid ones included."""
    yield _line([*COLUMNS, *([TEXT_COLUMN] if with_texts else [])])
    for row in table_rows(connection, series, with_texts=with_texts):
        yield _line([_field(value) for value in row])


def table_rows(connection: Connection, series: str, *, with_texts: bool) -> Iterator[tuple[Any, ...]]:
    """Yield the table's rows in the order of `COLUMNS`, the text last; every text in them is escaped."""
    row, replies = schema.effective_sample.c, Replies(connection)
    query = (
        select(*(row[name] for name in COLUMNS), row.run_id)
        .where(row.series == series)
        .order_by(row.slot_date, row.arm, row.item_id, row.replicate)
        .execution_options(yield_per=1000)
    )
    with connection.execute(query) as found:
        for each in found:
            values = [escape(value) if isinstance(value, str) else value for value in each[: len(COLUMNS)]]
            if with_texts:
                text = replies.text(each.run_id, each.item_id, replicate=each.replicate)
                values.append(None if text is None else escape(text))
            yield tuple(values)


def _line(fields: list[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(fields)
    return line.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return value.isoformat() if hasattr(value, "isoformat") else value
