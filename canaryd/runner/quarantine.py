"""Setting a slot aside: a note on each of its runs, by a person and with a reason."""

from __future__ import annotations

from datetime import date, datetime

from canaryd.errors import UsageError
from canaryd.records import Run
from canaryd.store import read, write
from canaryd.store.engine import Store
from canaryd.store.notes import invalid_runs
from canaryd.store.rows import Invalid


def set_aside(
    store: Store, series: str, *, slot_date: date, arm: str | None, reason: str, now: datetime
) -> tuple[Run, ...]:
    """Mark the runs of a slot (of one arm, or of all) as set aside and return those that were not marked before.

    Raises:
        UsageError: there is no such run, or every one of them is out of the analysis already.
    """
    with store.read() as connection:
        read.series(connection, series)
        found = [
            run
            for run in read.runs(connection, series, first=slot_date, last=slot_date)
            if arm is None or run.start.arm == arm
        ]
        marked = invalid_runs(connection, [run.run_id for run in found])
    runs = tuple(run for run in found if run.run_id not in marked)
    if not runs:
        which = f"{series} on {slot_date}" + (f" of arm {arm!r}" if arm else "")
        raise UsageError(
            f"there is no run of {which} that is still part of the analysis; `canaryd status` lists the arms"
        )
    for run in runs:
        write.append_validity(store, Invalid("operator", reason, now, run_id=run.run_id))
    return runs
