"""Day totals: what an arm's closed day adds up to, kept so that no look at a series costs more as its history grows.

They are derived, so they are no evidence: they may be dropped and made again at any time, `canaryd verify` holds each
to its raw rows, and a day without them is read from the raw rows. A day has them while no run of it is open: a claim
takes them away, the end of a run makes them, a note that sets samples aside makes them anew, each in its transaction.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select

from canaryd.store import effective, schema
from canaryd.store.rows import Cell, CellValue, Span, SpanCounts

_VALUES: tuple[CellValue, ...] = ("score", "output_tokens", "log_output_tokens")
#: The kind of totals that counts what became of the samples; the other kinds hold the cells of a value.
_COUNTS = "counts"


def cells_of(connection: Connection, span: Span, *, value: CellValue) -> tuple[Cell, ...]:
    """Return what `effective.item_day_cells` returns of a span, without sentinels and invalid samples."""
    kept = _kept(connection, span, value=value)
    found = [Cell(item, day, int(n), *sums) for day, content in kept.items() for item, n, *sums in _unpacked(content)]
    found += _cells_of_rest(connection, span, kept=kept, value=value)
    return tuple(sorted(found, key=lambda cell: (cell.item_id, cell.slot_date)))


def means_of(connection: Connection, span: Span, *, value: CellValue) -> dict[date, dict[str, float]]:
    """Return by slot date the mean of each item that has a cell in `cells_of`; years of them at little cost."""
    kept = _kept(connection, span, value=value)
    means = {day: {item: total / n for item, n, total, _ in _unpacked(content)} for day, content in kept.items()}
    for cell in _cells_of_rest(connection, span, kept=kept, value=value):
        means.setdefault(cell.slot_date, {})[cell.item_id] = cell.total / cell.n
    return means


def counts_of(connection: Connection, span: Span) -> SpanCounts:
    """Return what `effective.span_counts` returns of a span."""
    kept = _kept(connection, span, value=_COUNTS)
    if not kept:
        return effective.span_counts(connection, span)
    parts = [_counts(day, json.loads(content)) for day, content in kept.items()]
    alone = (Span(span.series, span.arm, day, day) for day in _days(span) if day not in kept)
    parts += [effective.span_counts(connection, day) for day in alone]
    return SpanCounts(
        scored=sum(part.scored for part in parts),
        harness_failures=_added(part.harness_failures for part in parts),
        outcome_failures=_added(part.outcome_failures for part in parts),
        scored_items={day: n for part in parts for day, n in part.scored_items.items()},
        fingerprints=frozenset().union(*(part.fingerprints for part in parts)),
    )


def keep_day(connection: Connection, series: str, *, arm: str, slot_date: date) -> None:
    """Make the totals of a day anew, unless a run of it is open."""
    forget_day(connection, series, arm=arm, slot_date=slot_date)
    start, end = schema.run_start, schema.run_end
    is_open = (
        select(start.c.run_id)
        .outerjoin_from(start, end)
        .where(start.c.series == series, start.c.arm == arm, start.c.slot_date == slot_date, end.c.run_id.is_(None))
    )
    if connection.execute(is_open.limit(1)).first() is None:
        for value, content in _contents(connection, Span(series, arm, slot_date, slot_date)).items():
            values = {"series": series, "arm": arm, "slot_date": slot_date, "value": value}
            connection.execute(insert(schema.day_total).values(**values, content=zlib.compress(content)))


def forget_day(connection: Connection, series: str, *, arm: str, slot_date: date) -> None:
    """Take the totals of a day away, so that it is read from the raw rows."""
    connection.execute(delete(schema.day_total).where(_of_day(series, arm=arm, slot_date=slot_date)))


def keep_missing(connection: Connection) -> None:
    """Make the totals of every closed day that has none: of a store that comes from an older schema, or an import."""
    start, total = schema.run_start, schema.day_total
    same = and_(total.c.series == start.c.series, total.c.arm == start.c.arm, total.c.slot_date == start.c.slot_date)
    query = (
        select(start.c.series, start.c.arm, start.c.slot_date)
        .outerjoin_from(start, total, same)
        .where(total.c.series.is_(None))
        .distinct()
    )
    for series, arm, slot_date in connection.execute(query).all():
        keep_day(connection, series, arm=arm, slot_date=slot_date)


def wrong_totals(connection: Connection, series: str) -> Iterator[str]:
    """Yield the name of each day whose totals are not what its raw rows add up to."""
    row = schema.day_total.c
    query = select(row.arm, row.slot_date, row.value, row.content).where(row.series == series)
    stored: dict[tuple[date, str], dict[str, bytes]] = defaultdict(dict)
    for arm, slot_date, value, content in connection.execute(query.order_by(row.slot_date, row.arm)):
        stored[slot_date, arm][value] = content
    for (slot_date, arm), contents in stored.items():
        again = _contents(connection, Span(series, arm, slot_date, slot_date))
        try:
            found = {value: _rounded(value, zlib.decompress(content)) for value, content in contents.items()}
        except (zlib.error, ValueError, struct.error):
            found = {}
        if found != {value: _rounded(value, content) for value, content in again.items()}:
            yield f"day total of {arm} {slot_date.isoformat()}"


def _rounded(value: str, content: bytes) -> Any:
    # PostgreSQL adds in no fixed order.
    if value == _COUNTS:
        return json.loads(content)
    return [(item, n, round(total, 9), round(total_sq, 9)) for item, n, total, total_sq in _unpacked(content)]


def _of_day(series: str, *, arm: str, slot_date: date) -> ColumnElement[bool]:
    row = schema.day_total.c
    return and_(row.series == series, row.arm == arm, row.slot_date == slot_date)


def _cells_of_rest(connection: Connection, span: Span, *, kept: Collection[date], value: CellValue) -> Iterator[Cell]:
    """Yield the cells of the days of a span that have no totals, from the raw rows."""
    rest = [day for day in _days(span) if day not in kept]
    if rest:
        between = Span(span.series, span.arm, rest[0], rest[-1])
        cells = effective.item_day_cells(connection, between, value=value)
        yield from (cell for cell in cells if cell.slot_date not in kept)


def _kept(connection: Connection, span: Span, *, value: str) -> dict[date, bytes]:
    row = schema.day_total.c
    query = select(row.slot_date, row.content).where(
        row.series == span.series,
        row.arm == span.arm,
        row.slot_date.between(span.first, span.last),
        row.value == value,
    )
    return {day: zlib.decompress(content) for day, content in connection.execute(query)}


def _days(span: Span) -> Iterator[date]:
    return (span.first + timedelta(days=n) for n in range((span.last - span.first).days + 1))


def _added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for part in parts:
        total.update(part)
    return dict(total)


def _contents(connection: Connection, day: Span) -> dict[str, bytes]:
    """Return the totals of one day by their kind: the counts as JSON, the cells of each value packed."""
    counts = effective.span_counts(connection, day)
    counted = {
        "scored": counts.scored,
        "harness_failures": counts.harness_failures,
        "outcome_failures": counts.outcome_failures,
        "scored_items": counts.scored_items.get(day.first),
        "fingerprints": sorted(counts.fingerprints, key=str),
    }
    contents = {_COUNTS: json.dumps(counted, separators=(",", ":")).encode()}
    for value in _VALUES:
        contents[value] = _packed(effective.item_day_cells(connection, day, value=value))
    return contents


def _packed(cells: Sequence[Cell]) -> bytes:
    """Return a line of JSON, the items, and behind it their n, sums and sums of squares as doubles: quick to read."""
    numbers = [
        *(cell.n for cell in cells),
        *(cell.total for cell in cells),
        *(cell.total_sq for cell in cells),
    ]
    return json.dumps([cell.item_id for cell in cells]).encode() + b"\n" + struct.pack(f"<{len(numbers)}d", *numbers)


def _unpacked(content: bytes) -> Iterator[tuple[str, float, float, float]]:
    """Yield item, n, sum and sum of squares of what was packed."""
    head, _, body = content.partition(b"\n")
    items = json.loads(head)
    many = len(items)
    numbers = struct.unpack(f"<{3 * many}d", body)
    return zip(items, numbers[:many], numbers[many : 2 * many], numbers[2 * many :], strict=True)


def _counts(day: date, totals: dict[str, Any]) -> SpanCounts:
    return SpanCounts(
        scored=totals["scored"],
        harness_failures=totals["harness_failures"],
        outcome_failures=totals["outcome_failures"],
        scored_items={} if totals["scored_items"] is None else {day: totals["scored_items"]},
        fingerprints=frozenset(totals["fingerprints"]),
    )
