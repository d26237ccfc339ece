"""Closing what no process will go on with: abandoned runs, slots that nobody ran, and slots that measured nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from canaryd import schedule
from canaryd.records import Run, RunEnd, RunStart
from canaryd.runner.clock import Clock
from canaryd.runner.trust import require_no_leap
from canaryd.runner.validity import CANARY_FAILED, run_invalid_reason
from canaryd.store import read, samples, write
from canaryd.store.engine import Store
from canaryd.store.epochs import epoch_on, epochs
from canaryd.store.lease import Lease
from canaryd.store.notes import invalid_runs
from canaryd.store.rows import AlreadyClaimed, Invalid, Series, Span
from canaryd.windows import utc_date
from canaryd.wording import counted


@dataclass(frozen=True, slots=True)
class Books:
    """Where the runs of a series are opened and closed; the holder of its lease keeps them."""

    store: Store
    series: Series
    lease: Lease
    clock: Clock
    due_minute: int


def close_past(books: Books) -> None:
    """Bring every slot before today to its end, so that windows over them can be decided.

    Raises:
        MeasurementRefused: the clock is so far ahead that the days before cannot be taken for missed.
        Locked: another process took the series over.
    """
    require_no_leap(books.clock, books.store)
    close_abandoned(books)
    close_unmeasured(books)
    mark_past(books)


def close_abandoned(books: Books) -> None:
    """End the runs that a process which died left open; what they stored stays and is not asked again."""
    with books.store.read() as connection:
        left_open = read.open_runs(connection, books.series.name)
    for run in left_open:
        ended = RunEnd(books.clock.now(), "abandoned", "the process that ran it ended without closing it")
        write.end_run(books.store, ended, run_id=run.run_id, lease=books.lease)


def close_unmeasured(books: Books) -> None:
    """Store the past slots that nobody ran as missed: a day without data is a row with a reason, never an absence."""
    series, today = books.series, utc_date(books.clock.now())
    with books.store.read() as connection:
        arms = [arm.name for arm in read.arms(connection, series.name)]
        claimed = read.claimed_slots(connection, series.name)
        known = epochs(connection, series)
    missed: dict[date, list[RunStart]] = defaultdict(list)
    for arm in arms:
        dates = {slot_date for name, slot_date in claimed if name == arm}
        for slot_date in schedule.unmeasured_slots(series.start_date, today=today, claimed=dates):
            missed[slot_date].append(next_start(books, arm, slot_date=slot_date))
    ended = RunEnd(books.clock.now(), "missed", "no process ran it before its UTC day ended")
    for slot_date, starts in sorted(missed.items()):
        epoch = epoch_on(known, slot_date).number
        write.record_missed(books.store, starts, end=ended, lease=books.lease, epoch=epoch)


@dataclass(frozen=True, slots=True)
class Refused:
    """An arm that is not asked in a slot, and how its run ends; `spent` where finding that out took calls."""

    arm: str
    slot_date: date
    end: RunEnd
    fingerprint: str | None = None
    spent: bool = False


def refuse_slot(books: Books, slot_date: date, *, reason: str) -> None:
    """Close today's slot as refused for every arm that has not completed it."""
    with books.store.read() as connection:
        arms = [arm.name for arm in read.arms(connection, books.series.name)]
    for arm in arms:
        if not any(run.end and run.end.outcome == "completed" for run in slot_runs(books, arm, slot_date=slot_date)):
            refuse_arm(books, Refused(arm, slot_date, RunEnd(books.clock.now(), "refused", reason)))


def refuse_arm(books: Books, refused: Refused) -> tuple[Run, ...]:
    """Store that an arm was not asked, and why; the same refusal twice in a row is one row, unless it took calls."""
    arm, slot_date, end = refused.arm, refused.slot_date, refused.end
    latest = slot_runs(books, arm, slot_date=slot_date)[-1:]
    same = latest and latest[0].end and (latest[0].end.outcome, latest[0].end.reason) == (end.outcome, end.reason)
    if same and not refused.spent:
        return tuple(latest)
    start = next_start(books, arm, slot_date=slot_date, fingerprint=refused.fingerprint)
    with books.store.read() as connection:
        epoch = epoch_on(epochs(connection, books.series), slot_date).number
    stored = write.record_missed(books.store, [start], end=end, lease=books.lease, epoch=epoch)
    return () if isinstance(stored, AlreadyClaimed) else stored


def slot_runs(books: Books, arm: str, *, slot_date: date) -> list[Run]:
    """Return the runs of one arm's slot by attempt."""
    with books.store.read() as connection:
        runs = read.runs(connection, books.series.name, first=slot_date, last=slot_date)
    return [run for run in runs if run.start.arm == arm]


def next_start(
    books: Books, arm: str, *, slot_date: date, fingerprint: str | None = None, at: datetime | None = None
) -> RunStart:
    """Return the start of an arm's next attempt at a slot, now or at the moment that its whole claim shares."""
    return RunStart(
        series=books.series.name,
        arm=arm,
        slot_date=slot_date,
        attempt=1 + max((run.start.attempt for run in slot_runs(books, arm, slot_date=slot_date)), default=0),
        started_at=at or books.clock.now(),
        due_at=schedule.due_at(slot_date, books.due_minute),
        panel_digest=books.series.panel_digest,
        registration_digest=books.series.registration_digest,
        fingerprint=fingerprint,
    )


def mark_past(books: Books) -> None:
    """Judge the past slots that no attempt completed; while its day lasts, a slot may still be completed."""
    name, today = books.series.name, utc_date(books.clock.now())
    with books.store.read() as connection:
        decided = read.latest_verdict(connection, name)
        first = books.series.start_date
        if decided is not None:
            first = date.fromisoformat(str(decided.verdict.clauses["last"])) + timedelta(days=1)
        slots: dict[tuple[str, date], list[Run]] = defaultdict(list)
        for run in read.runs(connection, name, first=first, last=today - timedelta(days=1)):
            slots[run.start.arm, run.start.slot_date].append(run)
    for runs in slots.values():
        outcomes = {run.end.outcome for run in runs if run.end is not None}
        if "completed" not in outcomes and not outcomes <= {"missed", "refused"}:
            mark_slot(books, runs)


def mark_slot(books: Books, runs: Sequence[Run]) -> str | None:
    """Mark every run of one arm's slot invalid where nearly nothing of the slot is a measurement; return the reason.

    Judged are the samples that count, whichever attempt they are from. A slot that asked nothing is not judged, and one
    that is marked already stays as it is; an attempt that got no further than its trivial task is no such mark.
    """
    start = runs[0].start
    span = Span(start.series, start.arm, start.slot_date, start.slot_date)
    with books.store.read() as connection:
        stored = samples.samples(connection, span, include_invalid=True)
        marked = invalid_runs(connection, [run.run_id for run in runs])
    reason = run_invalid_reason([sample.result for sample in stored]) if stored else None
    if reason is None or set(marked.values()) - {CANARY_FAILED}:
        return None
    note = f"{counted(len(stored), 'sample')} of {start.arm} on {start.slot_date}"
    for run in runs:
        if run.run_id not in marked:
            write.append_validity(books.store, Invalid(reason, note, books.clock.now(), run_id=run.run_id))
    return reason
