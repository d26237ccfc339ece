"""Where the early warning has to begin anew, since days that it rests on were set aside."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from canaryd.analysis.evidence import Evidence
from canaryd.analysis.subject import load_subjects
from canaryd.stats.early_warning import is_cut_short
from canaryd.stats.watch_params import Stream
from canaryd.store import read


@dataclass(frozen=True, slots=True)
class Restart:
    """A stream whose next counted day begins segment `segment`, with the capital at which it alarms then and so far."""

    stream: Stream
    segment: int
    fresh_days: int
    threshold: float
    threshold_before: float

    def __str__(self) -> str:
        return (
            f"early warning {self.stream} begins a new segment ({self.segment}) with the next counted day: no alarm in "
            f"its first {self.fresh_days} days, then at capital {self.threshold:.0f} (so far "
            f"{self.threshold_before:.0f}); what was published stays"
        )


def restarts(connection: Connection, name: str) -> tuple[Restart, ...]:
    """Return the streams of a series whose newest segment rests on a day that is out of the analysis by now.

    Days chosen after looking break the exactness of the segment, so a fresh one goes on, at its own smaller level.
    """
    evidence = Evidence(connection, load_subjects(connection, name)[-1])
    params, found = evidence.subject.prereg.early_warning, list[Restart]()
    for stream in params.streams:
        stored = read.early_warnings(connection, name, stream=stream, newest_segment=True)
        if not stored or stored[-1].alarm:
            continue
        newest = stored[-1]
        table = evidence.day_table(stream, first=stored[0].slot_date, last=newest.slot_date)
        if table is None or is_cut_short(table, stored):
            segment = newest.segment + 1
            level = params.threshold(segment)
            found.append(Restart(stream, segment, params.baseline_days, level, newest.threshold))
    return tuple(found)
