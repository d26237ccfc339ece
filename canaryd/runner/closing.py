"""Closing what no process will go on with: abandoned runs, slots that nobody ran, and slots that measured nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from canaryd import schedule
from canaryd.records import Run, RunEnd, RunStart
from canaryd.runner.validity import run_invalid_reason
from canaryd.store import read, samples, write
from canaryd.store.engine import Store
from canaryd.store.lease import Lease
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
        epochs = read_epochs(connection, series)
    missed: dict[date, list[RunStart]] = defaultdict(list)
    for arm in arms:
        dates = {slot_date for name, slot_date in claimed if name == arm}
        for slot_date in schedule.unmeasured_slots(series.start_date, today=today, claimed=dates):
            missed[slot_date].append(_unmeasured(closing, arm, slot_date=slot_date))
    ended = RunEnd(closing.now, "missed", "no process ran on that day")
    for slot_date, starts in sorted(missed.items()):
        epoch = epoch_on(epochs, slot_date)
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
