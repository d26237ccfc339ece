"""What the store holds of a series in an epoch, as the statistics take it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from sqlalchemy import Connection

from canaryd.analysis.subject import Subject
from canaryd.fingerprint import Fingerprint
from canaryd.stats.cells import Cell, Cells
from canaryd.stats.early_warning import DayTable, day_table, difference_table
from canaryd.stats.evaluable import Period
from canaryd.stats.rule import WindowData
from canaryd.stats.watch_params import Stream
from canaryd.store import harness, read, samples
from canaryd.store.notes import notes_by_date
from canaryd.store.pairing import caught_up_alone
from canaryd.store.rows import CellValue, Span
from canaryd.windows import utc_date


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the store holds of one series, as the statistics take it, without sentinels.

    Invalid samples are left out too, unless `include_invalid` says otherwise: no verdict is ever stored of those.
    """

    connection: Connection
    subject: Subject
    include_invalid: bool = field(default=False, kw_only=True)

    def window(self, index: int) -> WindowData:
        """Return what was measured in a window by every arm that takes part; 0 is the baseline."""
        tracked = self.span(self.subject.tracked, index)
        return WindowData(
            index=index,
            tracked=self.period(tracked),
            controls={arm: self.period(self.span(arm, index)) for arm in self.subject.controls},
            apart={arm: caught_up_alone(self.connection, tracked, partner=arm) for arm in self.subject.controls},
        )

    def span(self, arm: str, index: int) -> Span:
        """Return one arm over the days of a window."""
        window = self.subject.grid.window(index)
        return Span(self.subject.series.name, arm, window.first, window.last)

    def period(self, span: Span) -> Period:
        """Return scores and counts of one arm in a span."""
        counts = samples.span_counts(self.connection, span, include_invalid=self.include_invalid)
        return Period(
            scores=self.cells(span),
            attempts=counts.attempted,
            harness_failures=sum(counts.harness_failures.values()),
            outcome_failures=sum(counts.outcome_failures.values()),
            fingerprints=self._harnesses(span.arm, counts.fingerprints),
        )

    def _harnesses(self, arm: str, digests: frozenset[str]) -> frozenset[str]:
        """Return the harnesses that are really different: one that was accepted as equivalent is the epoch's own."""
        known = harness.components(self.connection, digests)
        subject = self.subject.harnesses
        return frozenset(
            subject.counts_as(arm, Fingerprint(known[digest])) if digest in known else digest for digest in digests
        )

    def cells(self, span: Span, *, value: CellValue = "score") -> Cells:
        """Return the cells of one arm in a span."""
        rows = samples.item_day_cells(self.connection, span, value=value, include_invalid=self.include_invalid)
        return Cells(Cell(row.item_id, row.slot_date, row.n, row.total, row.total_sq) for row in rows)

    def validity_notes(self, index: int) -> int:
        """Return how many notes take something out of what a window rests on: itself, the one before, the baseline."""
        grid, notes = self.subject.grid, notes_by_date(self.connection, self.subject.series.name)
        return sum(notes.get(day, 0) for each in _rests_on(index) for day in grid.days_of(each))

    def invalid_samples(self, index: int) -> dict[str, int]:
        """Return how many samples of what a window rests on are invalid, by reason, over the arms that take part."""
        counted = Counter[str]()
        for arm in self.subject.arms:
            for each in _rests_on(index):
                counted.update(samples.invalid_counts(self.connection, self.span(arm, each)))
        return dict(sorted(counted.items()))

    def is_closed(self, index: int) -> bool:
        """Return whether every slot of a window has ended for every arm, be it measured or missed."""
        window = self.subject.grid.window(index)
        runs = read.runs(self.connection, self.subject.series.name, first=window.first, last=window.last)
        closed = {(run.start.arm, run.start.slot_date) for run in runs if run.end is not None}
        arms = self.subject.arms
        days = self.subject.grid.days_of(index)
        return all(run.end for run in runs) and all((arm, day) in closed for arm in arms for day in days)

    def last_closed_day(self, now: datetime) -> date:
        """Return today when every arm completed it, else yesterday: a day that is counted must not change any more."""
        today = utc_date(now)
        runs = read.runs(self.connection, self.subject.series.name, first=today, last=today)
        completed = {run.start.arm for run in runs if run.end is not None and run.end.outcome == "completed"}
        done = set(self.subject.arms) <= completed
        return today if done else today - timedelta(days=1)

    def day_table(self, stream: Stream, *, first: date, last: date) -> DayTable | None:
        """Return the table of a stream's day scores; None for the difference where there is no control."""
        subject, coverage = self.subject, self.subject.prereg.early_warning.min_coverage
        value: CellValue = "log_output_tokens" if stream == "tokens" else "score"
        arms = (subject.tracked, *subject.controls[:1])
        means = [
            samples.item_day_means(
                self.connection,
                Span(subject.series.name, arm, first, last),
                value=value,
                include_invalid=self.include_invalid,
            )
            for arm in (arms if stream == "difference" else arms[:1])
        ]
        if stream != "difference":
            return day_table(means[0], subject.item_ids, min_coverage=coverage)
        if len(means) < 2:
            return None
        both = Span(subject.series.name, subject.tracked, first, last)
        for item, day in caught_up_alone(self.connection, both, partner=subject.controls[0]):
            for of_arm in means:
                of_arm.get(day, {}).pop(item, None)
        return difference_table(means[0], means[1], shared=subject.item_ids, min_coverage=coverage)


def _rests_on(index: int) -> set[int]:
    """Return the windows that the verdict on a window is made of; 0 is the baseline."""
    return {0, max(index - 1, 0), index}
