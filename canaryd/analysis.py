"""From stored samples to decisions: every window that has ended gets its verdict, every transition its alarm row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sqlalchemy import Connection

from canaryd import prereg as registration
from canaryd.prereg import Prereg
from canaryd.records import Alarm, AlarmState, EarlyWarningDay, JsonValue, Verdict
from canaryd.stats.cells import Cell, Cells
from canaryd.stats.early_warning import DayTable, day_table, difference_table, watch
from canaryd.stats.evaluable import PanelShape, Period
from canaryd.stats.outcomes import OutcomeCounts, outcome_tests
from canaryd.stats.power import headroom
from canaryd.stats.rule import Reference, WindowData, decide_window
from canaryd.stats.tokens import TokenCells, token_change
from canaryd.stats.watch_params import Stream
from canaryd.store import read, samples, write
from canaryd.store.engine import Store
from canaryd.store.lease import Lease
from canaryd.store.rows import CellValue, Series, Span, SpanCounts
from canaryd.windows import Grid, utc_date

EPOCH = 1


@dataclass(frozen=True, slots=True)
class Subject:
    """A registered series as its analysis sees it: arms by role, items without sentinels, protocol and grid."""

    series: Series
    prereg: Prereg
    tracked: str
    controls: tuple[str, ...]
    panel: PanelShape
    item_ids: tuple[str, ...]
    grid: Grid


def load_subject(connection: Connection, name: str) -> Subject:
    """Return a series from its own rows: the stored registration decides, not a file.

    Raises:
        UsageError: the series is not registered.
    """
    series = read.series(connection, name)
    protocol = registration.parse(read.registration(connection, name), source=f"registration of {name}")
    arms = read.arms(connection, name)
    items = [item for item in read.panel_items(connection, series.panel_digest) if not item.sentinel]
    return Subject(
        series=series,
        prereg=protocol,
        tracked=next(arm.name for arm in arms if arm.role == "tracked"),
        controls=tuple(arm.name for arm in arms if arm.role == "control"),
        panel=PanelShape(len(items), {item.item_id: item.cluster for item in items}),
        item_ids=tuple(item.item_id for item in items),
        grid=Grid(series.start_date, protocol.rule.baseline_days, protocol.rule.window_days),
    )


def analyse(store: Store, name: str, *, lease: Lease, now: datetime) -> tuple[Verdict, ...]:
    """Decide every window that has ended and has no verdict, and carry the early warning on; return the new verdicts.

    A window is decided once its last day is over and its slots are closed. It is decided from the baseline, itself and
    the window before it alone.

    Raises:
        Locked: the lease is lost.
    """
    with store.read() as connection:
        subject = load_subject(connection, name)
        evidence = Evidence(connection, subject)
        decided = {stored.verdict.window_index for stored in read.verdicts(connection, name)}
        due = [index for index in range(1, subject.grid.last_ended(now) + 1) if index not in decided]
        verdicts = [verdict_of(evidence, index=index, now=now) for index in due if evidence.is_closed(index)]
        warned = _new_early_warnings(evidence, now=now)
    if warned:
        write.append_early_warning(store, warned, lease=lease)
    for verdict in verdicts:
        _store_verdict(store, verdict, lease=lease)
    return tuple(verdicts)


def verdict_of(evidence: Evidence, *, index: int, now: datetime) -> Verdict:
    """Return the verdict on one window, recomputed from the samples of it, the window before it and the baseline."""
    subject = evidence.subject
    previous = evidence.window(index - 1) if index > 1 else None
    reference = Reference(evidence.window(0), subject.panel, subject.prereg.rule)
    decision = decide_window(evidence.window(index), previous, against=reference)
    return Verdict(
        series=subject.series.name,
        epoch=EPOCH,
        window_index=index,
        kind=decision.verdict,
        direction=decision.direction,
        attribution=decision.attribution,
        reasons=decision.reasons,
        decided_at=now,
        panel_digest=subject.series.panel_digest,
        registration_digest=subject.series.registration_digest,
        clauses={**decision.clauses, **evidence.beside(index)},
    )


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the store holds of one series, as the statistics take it; sentinels and invalid samples are left out."""

    connection: Connection
    subject: Subject

    def window(self, index: int) -> WindowData:
        """Return what was measured in a window by every arm that takes part; 0 is the baseline."""
        return WindowData(
            index=index,
            tracked=self.period(self.span(self.subject.tracked, index)),
            controls={arm: self.period(self.span(arm, index)) for arm in self.subject.controls},
        )

    def span(self, arm: str, index: int) -> Span:
        """Return one arm over the days of a window."""
        window = self.subject.grid.window(index)
        return Span(self.subject.series.name, arm, window.first, window.last)

    def period(self, span: Span) -> Period:
        """Return scores and counts of one arm in a span."""
        counts = samples.span_counts(self.connection, span)
        return Period(
            scores=self.cells(span),
            attempts=counts.attempted,
            harness_failures=sum(counts.harness_failures.values()),
            outcome_failures=sum(counts.outcome_failures.values()),
            fingerprints=counts.fingerprints,
        )

    def cells(self, span: Span, *, value: CellValue = "score") -> Cells:
        """Return the cells of one arm in a span."""
        rows = samples.item_day_cells(self.connection, span, value=value)
        return Cells(Cell(row.item_id, row.slot_date, row.n, row.total, row.total_sq) for row in rows)

    def beside(self, index: int) -> dict[str, JsonValue]:
        """Return what is printed beside a verdict and decides nothing: dates; per arm tokens, outcomes, headroom."""
        window = self.subject.grid.window(index)
        arms = (self.subject.tracked, *self.subject.controls)
        return {
            "first": window.first.isoformat(),
            "last": window.last.isoformat(),
            "arms": {arm: self._arm_beside(arm, index) for arm in arms},
        }

    def _arm_beside(self, arm: str, index: int) -> dict[str, JsonValue]:
        protocol, spans = self.subject.prereg, (self.span(arm, 0), self.span(arm, index))
        before, here = (self._tokens(span) for span in spans)
        tokens = token_change(before, here, clusters=self.subject.panel.clusters, params=protocol.tokens)
        counted_before, counted_here = (_answers(samples.span_counts(self.connection, span)) for span in spans)
        outcomes = outcome_tests(counted_before, counted_here, alpha=protocol.outcome_alpha)
        room = headroom(self.cells(spans[0]), params=protocol.headroom)
        return {
            "tokens": tokens.to_json(),
            "outcomes": outcomes.to_json(),
            "headroom": room.to_json() if room else None,
        }

    def _tokens(self, span: Span) -> TokenCells:
        return TokenCells(self.cells(span, value="output_tokens"), self.cells(span, value="log_output_tokens"))

    def is_closed(self, index: int) -> bool:
        """Return whether every slot of a window has ended for every arm, be it measured or missed."""
        window = self.subject.grid.window(index)
        runs = read.runs(self.connection, self.subject.series.name, first=window.first, last=window.last)
        closed = {(run.start.arm, run.start.slot_date) for run in runs if run.end is not None}
        arms = (self.subject.tracked, *self.subject.controls)
        days = self.subject.grid.days_of(index)
        return all(run.end for run in runs) and all((arm, day) in closed for arm in arms for day in days)

    def last_closed_day(self, now: datetime) -> date:
        """Return today when every arm completed it, else yesterday: a day that is counted must not change any more."""
        today = utc_date(now)
        runs = read.runs(self.connection, self.subject.series.name, first=today, last=today)
        completed = {run.start.arm for run in runs if run.end is not None and run.end.outcome == "completed"}
        done = {self.subject.tracked, *self.subject.controls} <= completed
        return today if done else today - timedelta(days=1)

    def day_table(self, stream: Stream, last: date) -> DayTable | None:
        """Return the table of a stream's day scores up to `last`; None for the difference where there is no control."""
        subject, coverage = self.subject, self.subject.prereg.early_warning.min_coverage
        value: CellValue = "log_output_tokens" if stream == "tokens" else "score"
        arms = (subject.tracked, *subject.controls[:1])
        cells = [
            self.cells(Span(subject.series.name, arm, subject.series.start_date, last), value=value)
            for arm in (arms if stream == "difference" else arms[:1])
        ]
        if stream != "difference":
            return day_table(cells[0], subject.item_ids, min_coverage=coverage)
        if len(cells) < 2:
            return None
        return difference_table(cells[0], cells[1], shared=subject.item_ids, min_coverage=coverage)


def _answers(counts: SpanCounts) -> OutcomeCounts:
    return OutcomeCounts(counts.scored + sum(counts.outcome_failures.values()), counts.outcome_failures)


_CHANGE_STATES: Mapping[tuple[str, str | None], AlarmState] = {
    ("model", "down"): "regression",
    ("model", "up"): "improvement",
    ("platform", "down"): "platform_change",
    ("platform", "up"): "platform_change",
    ("unattributed", "down"): "unattributed_regression",
    ("unattributed", "up"): "unattributed_improvement",
}


def alarm_state(verdict: Verdict) -> AlarmState | None:
    """Return the alarm state that a verdict puts its series in, or None when it leaves the state as it is.

    >>> from datetime import UTC
    >>> base = dict(series="s", epoch=1, window_index=1, reasons=(), decided_at=datetime(2027, 1, 1, tzinfo=UTC),
    ...             panel_digest="p", registration_digest="r", clauses={})
    >>> alarm_state(Verdict(kind="change", direction="down", attribution="model", **base))
    'regression'
    """
    if verdict.kind == "change":
        return _CHANGE_STATES[verdict.attribution or "unattributed", verdict.direction]
    states: dict[str, AlarmState] = {"no_change_detected": "ok", "not_evaluable": "not_evaluable"}
    return states.get(verdict.kind)


def _store_verdict(store: Store, verdict: Verdict, *, lease: Lease) -> None:
    verdict_id = write.append_verdict(store, verdict, lease=lease)
    with store.read() as connection:
        transitions = read.alarms(connection, verdict.series)
    state = alarm_state(verdict)
    if state is not None and (not transitions or transitions[-1].state != state):
        write.append_alarm(store, Alarm(verdict.series, state, verdict.decided_at, verdict_id), lease=lease)


def _new_early_warnings(evidence: Evidence, *, now: datetime) -> tuple[EarlyWarningDay, ...]:
    """Return the steps of every registered stream that are not stored yet, up to the last closed day."""
    params, name = evidence.subject.prereg.early_warning, evidence.subject.series.name
    last = evidence.last_closed_day(now)
    rows: list[EarlyWarningDay] = []
    for stream in params.streams:
        table = evidence.day_table(stream, last)
        if table is not None:
            stored = read.early_warnings(evidence.connection, name, stream=stream)
            known = {(row.segment, row.slot_date) for row in stored}
            watched = watch(table, series=name, stream=stream, params=params)
            rows += [row for row in watched if (row.segment, row.slot_date) not in known]
    return tuple(rows)
