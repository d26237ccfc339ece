"""Closing what no process will go on with: abandoned runs, slots that nobody ran, and slots that measured nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from canaryd import schedule
from canaryd.records import Run, RunEnd, RunStart
from canaryd.runner.validity import run_invalid_reason
from canaryd.store import read, samples, write
from canaryd.store.engine import Store
from canaryd.store.epochs import epoch_on, epochs
from canaryd.store.lease import Lease
from canaryd.store.notes import invalid_runs
from canaryd.store.rows import Invalid, Series, Span
from canaryd.windows import utc_date


@dataclass(frozen=True, slots=True)
class Closing:
    """What the slots of a series are closed with; the caller holds its lease."""

    store: Store
    series: Series
    lease: Lease
    now: datetime
    due_minute: int


def close_past(closing: Closing) -> None:
    """Bring every slot before today to its end, so that windows over them can be decided.

    Raises:
        Locked: another process took the series over.
    """
    close_abandoned(closing)
    close_unmeasured(closing)
    mark_past(closing)


def close_abandoned(closing: Closing) -> None:
    """End the runs that a process which died left open; what they stored stays and is not asked again."""
    with closing.store.read() as connection:
        left_open = read.open_runs(connection, closing.series.name)
    for run in left_open:
        ended = RunEnd(closing.now, "abandoned", "the process that ran it ended without closing it")
        write.end_run(closing.store, ended, run_id=run.run_id, lease=closing.lease)


def close_unmeasured(closing: Closing) -> None:
    """Store the past slots that nobody ran as missed: a day without data is a row with a reason, never an absence."""
    series, today = closing.series, utc_date(closing.now)
    with closing.store.read() as connection:
        arms = [arm.name for arm in read.arms(connection, series.name)]
        claimed = {(run.start.arm, run.start.slot_date) for run in read.runs(connection, series.name)}
        known = epochs(connection, series)
    missed: dict[date, list[RunStart]] = defaultdict(list)
    for arm in arms:
        dates = {slot_date for name, slot_date in claimed if name == arm}
        for slot_date in schedule.unmeasured_slots(series.start_date, today=today, claimed=dates):
            missed[slot_date].append(_unmeasured(closing, arm, slot_date=slot_date))
    ended = RunEnd(closing.now, "missed", "no process ran on that day")
    for slot_date, starts in sorted(missed.items()):
        epoch = epoch_on(known, slot_date).number
        write.record_missed(closing.store, starts, end=ended, lease=closing.lease, epoch=epoch)


def _unmeasured(closing: Closing, arm: str, *, slot_date: date) -> RunStart:
    return RunStart(
        series=closing.series.name,
        arm=arm,
        slot_date=slot_date,
        attempt=1,
        started_at=closing.now,
        due_at=schedule.due_at(slot_date, closing.due_minute),
        panel_digest=closing.series.panel_digest,
        registration_digest=closing.series.registration_digest,
        fingerprint=None,
    )


def mark_past(closing: Closing) -> None:
    """Judge the past slots that no attempt completed; while its day lasts, a slot may still be completed."""
    name, today = closing.series.name, utc_date(closing.now)
    with closing.store.read() as connection:
        decided = read.latest_verdict(connection, name)
        first = closing.series.start_date
        if decided is not None:
            first = date.fromisoformat(str(decided.verdict.clauses["last"])) + timedelta(days=1)
        slots: dict[tuple[str, date], list[Run]] = defaultdict(list)
        for run in read.runs(connection, name, first=first, last=today - timedelta(days=1)):
            slots[run.start.arm, run.start.slot_date].append(run)
    for runs in slots.values():
        if not any(run.end is not None and run.end.outcome == "completed" for run in runs):
            mark_slot(closing, runs)


def mark_slot(closing: Closing, runs: Sequence[Run]) -> str | None:
    """Mark every run of one arm's slot invalid where nearly nothing of the slot is a measurement; return the reason.

    Judged are the samples that count, whichever attempt they are from. A slot that asked nothing is not judged, and one
    that is marked already stays as it is.
    """
    start = runs[0].start
    span = Span(start.series, start.arm, start.slot_date, start.slot_date)
    with closing.store.read() as connection:
        stored = samples.samples(connection, span, include_invalid=True)
        marked = invalid_runs(connection, [run.run_id for run in runs])
    reason = run_invalid_reason([sample.result for sample in stored]) if stored else None
    if reason is None or marked:
        return None
    note = f"{len(stored)} samples of {start.arm} on {start.slot_date}"
    for run in runs:
        write.append_validity(closing.store, Invalid(reason, note, closing.now, run_id=run.run_id))
    return reason
