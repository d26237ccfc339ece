"""Everything that a series claims, derived again from its raw rows; the first thing that does not agree is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, select

from canaryd import graders, panel
from canaryd.analysis import Evidence, Subject, alarm_state, load_subjects, verdict_of
from canaryd.errors import CanarydError, VerifyFailed
from canaryd.fingerprint import Fingerprint
from canaryd.hashing import digest
from canaryd.panel import Panel
from canaryd.records import EarlyWarningDay, Item, JsonValue, Verdict
from canaryd.stats.early_warning import watch
from canaryd.stats.watch_params import Stream
from canaryd.store import harness, ledger, notes, read, run_totals, schema, totals
from canaryd.store.engine import RowRefused, open_store
from canaryd.store.metadata import metadata
from canaryd.store.rows import PanelItem, Series
from canaryd.store.transfer import import_jsonl
from canaryd.store.types import UnreadableValue
from canaryd.store.unreadable import first_unreadable
from canaryd.wording import counted

#: Databases add in different orders, so recomputed numbers are held to this relative difference; the ledger holds the
#: stored ones to the last bit.
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Verified:
    """A series that agrees with its raw rows: the end of its ledger, and how much was recomputed."""

    series: str
    head: ledger.Head
    verdicts: int
    early_warning_days: int

    def __str__(self) -> str:
        return (
            f"{self.series}: ledger of {counted(self.head.entries, 'entry')}, panel, registration, "
            f"{counted(self.verdicts, 'verdict')} and "
            f"{self.early_warning_days} early-warning rows agree\nhead {self.head.digest}"
        )


def verify_series(connection: Connection, name: str) -> Verified:
    """Recompute a series' ledger, panel, registration, verdicts, alarms and early warning from its raw rows.

    Raises:
        VerifyFailed: something differs, is missing or was added; the text names the first such row.
        UsageError: the series is not registered.
    """
    try:
        return _verified(connection, read.series(connection, name))
    except UnreadableValue as error:
        raise _failed(name, first_unreadable(connection, name) or str(error)) from error


def require_every_series(connection: Connection) -> None:
    """Refuse a store with rows of a series whose own row is gone.

    Raises:
        VerifyFailed: there is one; the text names the table that still has its rows.
    """
    for table in (schema.ledger, *(table for table in metadata.sorted_tables if table is not schema.ledger)):
        if any(key.column is schema.series.c.name for key in table.foreign_keys):
            named = table.c.series
            query = select(named).where(named.not_in(select(schema.series.c.name))).order_by(named).limit(1)
            if (lost := connection.scalar(query)) is not None:
                raise _failed(lost, f"table {table.name} has rows of a series whose own row is missing")


def _verified(connection: Connection, series: Series) -> Verified:
    name = series.name
    found = ledger.first_difference(connection, name)
    head = ledger.head(connection, name)
    if found is not None or head is None:
        raise _failed(name, str(found or "the ledger is missing"))
    for complaint in _complaints(connection, series):
        raise _failed(name, complaint)
    warned = sum(len(rows) for rows in _stored_streams(connection, name).values())
    return Verified(name, head, len(read.verdicts(connection, name)), warned)


def verify_export(lines: Iterable[str], *, now: datetime) -> Verified:
    """Verify an exported series in a store of its own, which is thrown away.

    Raises:
        VerifyFailed: as `verify_series`, or a row of the export breaks a rule of the store.
        UsageError: the lines are no whole export.
    """
    with (
        TemporaryDirectory(prefix="canaryd-verify-") as folder,
        open_store(f"sqlite:///{Path(folder) / 'canaryd.db'}", create=True) as store,
    ):
        try:
            name = import_jsonl(store, lines, now=now)
        except RowRefused as refused:
            raise VerifyFailed(f"the export holds a row that no store takes: {refused}") from refused
        with store.read() as connection:
            return verify_series(connection, name)


def _failed(series: str, complaint: str) -> VerifyFailed:
    return VerifyFailed(f"{series}: {complaint}; compare with a backup or an export to find out since when")


def _complaints(connection: Connection, series: Series) -> Iterator[str]:
    """Yield what disagrees; nothing below is looked at before what it rests on agrees."""
    yield from _registration(connection, series)
    yield from _panel(connection, series)
    yield from _harnesses(connection, series.name)
    wrong = chain(totals.wrong_totals(connection, series.name), run_totals.wrong_totals(connection, series.name))
    yield from (f"{total} differs from its samples" for total in wrong)
    try:
        subjects = load_subjects(connection, series.name)
    except CanarydError as error:
        yield f"the stored registration cannot be used ({error})"
        return
    yield from _verdicts(connection, subjects)
    yield from _alarms(connection, series.name)
    yield from _early_warnings(connection, subjects)


def _registration(connection: Connection, series: Series) -> Iterator[str]:
    if digest(read.registration(connection, series.name)) != series.registration_digest:
        yield "the bytes of the registration differ from their digest"


def _panel(connection: Connection, series: Series) -> Iterator[str]:
    stored = read.panel(connection, series.panel_digest)
    try:
        parsed = panel.parse(stored.content, stored.system, graders=graders, path=f"panel {stored.name}")
    except CanarydError as error:
        yield f"the stored panel cannot be read ({error})"
        return
    yield from _items(parsed, read.panel_items(connection, series.panel_digest))
    if parsed.digest != series.panel_digest:
        yield (
            f"panel {stored.name} differs: with this canaryd's graders it is {parsed.digest[:19]}…, "
            f"registered was {series.panel_digest[:19]}…"
        )


def _items(parsed: Panel, stored: Sequence[PanelItem]) -> Iterator[str]:
    wanted = {item.item_id: _stored_form(ordinal, item) for ordinal, item in enumerate(parsed.items)}
    found = {item.item_id: item for item in stored}
    for item_id in wanted | found:
        if wanted.get(item_id) != found.get(item_id):
            change = "is missing" if item_id not in found else "was added" if item_id not in wanted else "differs"
            yield f"item {item_id} {change} beside the bytes of the panel"


def _stored_form(ordinal: int, item: Item) -> PanelItem:
    return PanelItem(
        item_id=item.item_id,
        ordinal=ordinal,
        family=item.family,
        cluster=item.cluster,
        sentinel=item.sentinel,
        replicates=item.replicates,
        target_label=item.target if isinstance(item.target, str) else None,
    )


def _harnesses(connection: Connection, name: str) -> Iterator[str]:
    used = {run.start.fingerprint for run in read.runs(connection, name)} - {None}
    known = harness.components(connection, {str(each) for each in used})
    for wanted in sorted(map(str, used)):
        if wanted not in known:
            yield f"harness {wanted[:19]}… is missing"
        elif Fingerprint(known[wanted]).digest != wanted:
            yield f"harness {wanted[:19]}… differs from its digest"


def _verdicts(connection: Connection, subjects: Sequence[Subject]) -> Iterator[str]:
    place_of = {subject.epoch.number: place for place, subject in enumerate(subjects)}
    for stored in read.verdicts(connection, subjects[0].series.name):
        verdict = stored.verdict
        row = f"verdict of epoch {verdict.epoch} window {verdict.window_index}"
        place = place_of.get(verdict.epoch)
        if place is None:
            yield f"{row} was added: there is no such epoch"
            continue
        evidence = Evidence(connection, subjects[place])
        again = verdict_of(evidence, index=verdict.window_index, now=verdict.decided_at, earlier=subjects[:place])
        differing = next(_differing(verdict, again), None)
        if differing is not None:
            yield f"{row} differs from its recomputation at {differing}"


def _differing(stored: Verdict, again: Verdict) -> Iterator[str]:
    """Yield the places at which a verdict is not the recomputed one."""
    for field in ("kind", "direction", "attribution", "reasons", "panel_digest", "registration_digest"):
        if getattr(stored, field) != getattr(again, field):
            yield f"{field} ({getattr(stored, field)!r}, recomputed {getattr(again, field)!r})"
    yield from _unlike(dict(stored.clauses), dict(again.clauses), place="clauses")


def _unlike(stored: JsonValue, again: JsonValue, *, place: str) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(again, dict):
        for key in sorted({*stored, *again}):
            if key not in stored or key not in again:
                yield f"{place}.{key} ({'missing' if key in again else 'added'})"
            elif key == "coincides_with":
                yield from _forgotten(stored[key], again[key], place=f"{place}.{key}")
            else:
                yield from _unlike(stored[key], again[key], place=f"{place}.{key}")
    elif isinstance(stored, list) and isinstance(again, list) and len(stored) == len(again):
        for number, (left, right) in enumerate(zip(stored, again, strict=True)):
            yield from _unlike(left, right, place=f"{place}[{number}]")
    elif not _same(stored, again):
        yield f"{place} ({stored!r}, recomputed {again!r})"


def _forgotten(stored: JsonValue, again: JsonValue, *, place: str) -> Iterator[str]:
    """Yield each coincidence that is not known; people note more of them after a verdict, and that changes nothing."""
    assert isinstance(stored, list)
    assert isinstance(again, list)
    yield from (f"{place} ({each!r}, not known)" for each in stored if each not in again)


def _same(stored: JsonValue, again: JsonValue) -> bool:
    if isinstance(stored, bool) or isinstance(again, bool):
        return stored is again
    if isinstance(stored, int | float) and isinstance(again, int | float):
        return math.isclose(stored, again, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return stored == again


def _alarms(connection: Connection, name: str) -> Iterator[str]:
    verdict_of_id = {each.verdict_id: each.verdict for each in read.verdicts(connection, name, superseded=True)}
    for alarm in read.alarms(connection, name):
        if alarm.verdict_id is not None and alarm_state(verdict_of_id[alarm.verdict_id]) != alarm.state:
            yield f"alarm {alarm.state} since {alarm.since.isoformat()} is not what its verdict says"


def _early_warnings(connection: Connection, subjects: Sequence[Subject]) -> Iterator[str]:
    """Yield each row that is not what its days give, of every stream up to the last day that any row knows."""
    subject = subjects[-1]
    name = subject.series.name
    stored = _stored_streams(connection, name)
    known = {row.slot_date for rows in stored.values() for row in rows}
    known |= {date.fromisoformat(str(each.verdict.clauses["last"])) for each in read.verdicts(connection, name)}
    for stream, rows in stored.items():
        registered = stream in subject.prereg.early_warning.streams
        table = Evidence(connection, subject).day_table(
            stream, first=subject.series.start_date, last=max(known, default=subject.series.start_date)
        )
        if registered and table is not None:
            recomputed = partial(
                watch,
                table,
                series=name,
                stream=stream,
                params=subject.prereg.early_warning,
                fresh_starts=[each.epoch.first_date for each in subjects[1:]],
            )
            yield from _stream(rows, recomputed, set_aside=notes.set_aside_later(connection, name))
        elif rows:
            yield f"early warning {stream} of {rows[0].slot_date.isoformat()} was added: there is no such stream"


def _stored_streams(connection: Connection, name: str) -> dict[Stream, tuple[EarlyWarningDay, ...]]:
    streams: tuple[Stream, ...] = ("score", "tokens", "difference")
    return {stream: read.early_warnings(connection, name, stream=stream) for stream in streams}


def _stream(
    stored: Sequence[EarlyWarningDay],
    recomputed: Callable[..., Sequence[EarlyWarningDay]],
    *,
    set_aside: Sequence[tuple[date, date]],
) -> Iterator[str]:
    """Yield what differs in one stream.

    A row once published stays, whatever is set aside later: from a day that was, to the day on which that happened,
    rows are taken as they are, and the later ones must follow from them.
    """
    published: Sequence[EarlyWarningDay] = ()
    for first, noted in set_aside:
        upto = [row for row in stored if row.slot_date < first]
        again = [row for row in recomputed(stored=published) if row.slot_date < first]
        yield from _rows_unlike(upto[len(published) :], again)
        published = [row for row in stored if row.slot_date <= noted]
    yield from _rows_unlike(stored[len(published) :], recomputed(stored=published))


def _rows_unlike(stored: Sequence[EarlyWarningDay], again: Sequence[EarlyWarningDay]) -> Iterator[str]:
    wanted = {row.slot_date: row for row in again}
    for row in stored:
        other = wanted.pop(row.slot_date, None)
        if other is None:
            yield f"early warning {row.stream} of {row.slot_date.isoformat()} was added"
        elif not _same_step(row, other):
            yield f"early warning {row.stream} of {row.slot_date.isoformat()} differs from its recomputation"
    yield from (f"early warning {row.stream} of {day.isoformat()} is missing" for day, row in wanted.items())


def _same_step(stored: EarlyWarningDay, again: EarlyWarningDay) -> bool:
    exact = ("segment", "rank", "alarm", "onset")
    if any(getattr(stored, field) != getattr(again, field) for field in exact):
        return False
    return all(_same(getattr(stored, field), getattr(again, field)) for field in ("capital", "threshold"))
