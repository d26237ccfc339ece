"""From the store to a snapshot: everything that is known of every configured series."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from sqlalchemy import Connection

from canaryd import __version__
from canaryd import prereg as registration
from canaryd.metrics import queries
from canaryd.metrics.catalogue import BLOCKED_REASONS, FAILURE_REASONS, STATES, TOKEN_KINDS, WINDOWS
from canaryd.metrics.judge import add_judge
from canaryd.metrics.money import Purse, add_money
from canaryd.metrics.values import Snapshot, Values
from canaryd.metrics.windows import add_windows, last_day
from canaryd.prereg import Prereg
from canaryd.records import Alarm, Run
from canaryd.revision import revision
from canaryd.schedule import DAY, Owing, SlotPolicy, due_slots, next_due
from canaryd.stats.watch_state import SentinelState, early_warning_state, sentinel_series_state
from canaryd.status.remedies import blocked_by
from canaryd.store import harness, ledger, read, regrades, sentinels
from canaryd.store.acknowledgements import acknowledgements
from canaryd.store.engine import Store
from canaryd.store.events import events
from canaryd.store.lease import living_lease
from canaryd.store.process import is_alive
from canaryd.store.rows import Series, StoredArm
from canaryd.store.run_totals import ArmTotal, arm_totals
from canaryd.windows import utc_date


@dataclass(frozen=True, slots=True)
class Known:
    """One registered series with its registration, its arms, and its runs since the latest measured one of each.

    `is_held` says whether a living process holds it.
    """

    series: Series
    prereg: Prereg
    arms: tuple[StoredArm, ...]
    runs: tuple[Run, ...]
    is_held: bool

    @property
    def name(self) -> str:
        """The name of the series."""
        return self.series.name


def take_snapshot(
    store: Store, names: Sequence[str], *, policy: SlotPolicy, now: datetime, purse: Purse | None = None
) -> Snapshot:
    """Return the values of the named series that are registered; `now` is what the schedule is judged by.

    Without a purse nothing is said of money.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    began_s, values = time.monotonic(), Values()
    with store.read() as connection:
        values.add("build_info", 1, __version__, revision() or "unknown", platform.python_version())
        values.add("store_size_bytes", queries.store_bytes(connection))
        found = [series for series in read.all_series(connection) if series.name in names]
        known = [_known(connection, series, now=now) for series in found]
        for each in known:
            _add_series(connection, values, known=each)
            _add_states(connection, values, known=each)
            _add_sentinels(connection, values, known=each)
            add_judge(connection, values, series=each.name, protocol=each.prereg)
            add_windows(
                values, each.name, arms=each.arms, verdicts=read.verdicts(connection, each.name, newest=len(WINDOWS))
            )
            for arm in each.arms:
                _add_arm(connection, values, known=each, arm=arm)
            _add_events(connection, values, known=each, today=utc_date(now))
            values.add("regrade_mismatches", regrades.latest_mismatches(connection, each.name), each.name)
            if purse is not None:
                add_money(connection, values, series=each.series, arms=each.arms, purse=purse, today=utc_date(now))
            expected = harness.last_duration(connection, each.name)
            _add_schedule(values, each, policy=replace(policy, expected=expected), now=now)
        _add_totals(connection, values, known=known)
    return Snapshot(values.by_metric, time.time(), time.monotonic() - began_s)


def _known(connection: Connection, series: Series, *, now: datetime) -> Known:
    today = utc_date(now)
    protocol = registration.parse(read.registration(connection, series.name), source=f"registration of {series.name}")
    first = min(queries.first_date_shown(connection, series.name) or today, today)
    runs = read.runs(connection, series.name, first=first)
    is_held = living_lease(connection, series.name, now=now, is_alive=is_alive) is not None
    return Known(series, protocol, read.arms(connection, series.name), runs, is_held)


def _add_series(connection: Connection, values: Values, *, known: Known) -> None:
    series, rule = known.series, known.prereg.rule
    panel = read.panel(connection, series.panel_digest)
    values.add(
        "series_info", 1, series.name, f"{panel.name} {panel.version}", series.registration_digest, series.panel_digest
    )
    head = ledger.head(connection, series.name)
    if head is not None:
        values.add("ledger_info", 1, series.name, head.digest)
    values.add("series_created_timestamp_seconds", series.registered_at, series.name)
    values.add("rule_min_effect_ratio", rule.min_effect, series.name)
    values.add("rule_confidence_ratio", rule.estimate.confidence, series.name)
    values.add("rule_target_mde_ratio", known.prereg.target_mde, series.name)


def _add_states(connection: Connection, values: Values, *, known: Known) -> None:
    name = known.name
    alarms = read.alarms(connection, name)
    current = alarms[-1] if alarms else Alarm(name, "warming_up", known.series.registered_at, None)
    values.add_state("alarm_state", current.state, name)
    values.add("alarm_state_since_timestamp_seconds", current.since, name)
    for state in STATES["alarm_state"]:
        values.add("alarm_transitions_total", sum(alarm.state == state for alarm in alarms), name, state)
    for state, given in acknowledgements(connection, name).items():
        values.add("alarm_acknowledged_until_timestamp_seconds", given.until, name, state)
    verdict = read.latest_verdict(connection, name)
    decided_through = None if verdict is None else last_day(verdict.verdict.clauses)
    for stream in known.prereg.early_warning.streams:
        days = read.early_warning_marks(connection, name, stream=stream)
        state = early_warning_state(days, decided_through=decided_through)
        values.add_state("early_warning_state", state, name, stream)
        if days:
            values.add("early_warning_capital", days[-1].capital, name, stream)
            values.add("early_warning_threshold", days[-1].threshold, name, stream)


def _add_sentinels(connection: Connection, values: Values, *, known: Known) -> None:
    name, params = known.name, known.prereg.sentinels
    watching = sum(item.sentinel for item in read.panel_items(connection, known.series.panel_digest))
    values.add("sentinels_excluded", watching, name)
    values.add("sentinel_unjudged_slots", sentinels.unjudged_slots(connection, name), name)
    newest = sentinels.last_day(connection, name)
    if newest is None:
        values.add_state("sentinel_state", "warming_up" if watching else "none", name)
        return
    slots: dict[date, dict[str, SentinelState]] = {newest - n * DAY: {} for n in range(params.collapse_slots)}
    for day in sentinels.days(connection, name, first=min(slots)):
        slots[day.slot_date][day.item_id] = day.state
    today, *before = slots.values()
    values.add_state("sentinel_state", sentinel_series_state(today, before=before, params=params), name)


def _add_arm(connection: Connection, values: Values, *, known: Known, arm: StoredArm) -> None:
    labels = (known.name, arm.name)
    values.add("arm_info", 1, *labels, arm.role, arm.provider, arm.model)
    success = read.latest_run(connection, known.name, arm=arm.name, outcome="completed")
    values.add("run_last_success_timestamp_seconds", success.end.ended_at if success and success.end else 0, *labels)
    mine = [run for run in known.runs if run.start.arm == arm.name and run.end is not None]
    ended = mine[-1].end if mine else None
    blocked = blocked_by(ended.outcome, ended.reason) if ended else None
    for reason in BLOCKED_REASONS:
        values.add("run_blocked", reason == blocked, *labels, reason)
    measured = [run for run in mine if run.end and run.end.outcome in queries.MEASURED]
    last = measured[-1] if measured else None
    values.add("run_last_completion_timestamp_seconds", last.end.ended_at if last and last.end else 0, *labels)
    zero_pass = last is not None and "zero_pass_all" in queries.invalid_reasons(connection, last.run_id)
    values.add("run_zero_pass", zero_pass, *labels)
    if last is not None and last.end is not None:
        values.add("run_last_duration_seconds", harness.duration_s(connection, last.run_id), *labels)
        if last.start.fingerprint is not None:
            values.add("harness_info", 1, *labels, last.start.fingerprint)
        _add_slot(connection, values, run=last, requested=arm.model)


def _add_events(connection: Connection, values: Values, *, known: Known, today: date) -> None:
    happened = events(connection, known.name, first=known.series.start_date, last=today)
    for arm in known.arms:
        mine = [event for event in happened if event.arm == arm.name]
        rolls = [event.at for event in mine if event.kind == "model_roll"]
        shifts = [event.at for event in mine if event.kind == "input_tokens"]
        for kind in sorted({event.kind for event in mine}):
            latest = max(event.at for event in mine if event.kind == kind)
            values.add("event_last_timestamp_seconds", latest, known.name, arm.name, kind)
        values.add("resolved_model_changes_total", len(rolls), known.name, arm.name)
        values.add("resolved_model_changed_timestamp_seconds", max(rolls, default=None), known.name, arm.name)
        values.add("input_tokens_changed_timestamp_seconds", max(shifts, default=None), known.name, arm.name)


def _add_slot(connection: Connection, values: Values, *, run: Run, requested: str) -> None:
    series, arm, slot_date = run.start.series, run.start.arm, run.start.slot_date
    figures = queries.slot_figures(connection, series, arm=arm, slot_date=slot_date)
    values.add("run_samples", figures.samples, series, arm)
    if figures.scored:
        values.add("run_score_ratio", figures.score_total / figures.scored, series, arm)
    for reason in FAILURE_REASONS:
        values.add("run_failed_samples", figures.failures.get(reason, 0), series, arm, reason)
    for kind in TOKEN_KINDS:
        values.add("run_tokens_per_sample", figures.token_means[kind], series, arm, kind)
    for resolved in queries.resolved_models(connection, series, arm=arm, slot_date=slot_date):
        values.add("arm_resolved_info", 1, series, arm, requested, resolved.model, resolved.standing)


def _add_schedule(values: Values, known: Known, *, policy: SlotPolicy, now: datetime) -> None:
    owing = Owing([arm.name for arm in known.arms], max(known.series.start_date, utc_date(now)))
    decision = due_slots(
        [run for run in known.runs if run.start.slot_date >= owing.first], now, owing=owing, policy=policy
    )
    values.add("next_run_timestamp_seconds", next_due(decision[-1], now, owing=owing, policy=policy), known.name)
    values.add("run_in_progress", known.is_held and any(run.end is None for run in known.runs), known.name)
    measured = [run.start for run in known.runs if run.start.fingerprint is not None]
    if measured:
        latest = max(start.slot_date for start in measured)
        begun = min((start for start in measured if start.slot_date == latest), key=lambda start: start.started_at)
        late = begun.started_at - begun.due_at
        values.add("schedule_lateness_seconds", max(0.0, late.total_seconds()), known.name)


def _add_totals(connection: Connection, values: Values, *, known: Sequence[Known]) -> None:
    runs, totals, missed = queries.run_counts(connection), arm_totals(connection), queries.missed_slots(connection)
    for each in known:
        values.add("slots_missed_total", missed.get(each.name, 0), each.name)
        for arm in each.arms:
            key = (each.name, arm.name)
            total = totals.get(key, ArmTotal())
            values.add("runs_total", runs.get(key, 0), *key)
            values.add("samples_total", total.samples, *key)
            for reason in FAILURE_REASONS:
                values.add("samples_failed_total", total.failures[reason], *key, reason)
            for kind in TOKEN_KINDS:
                values.add("tokens_total", total.tokens[f"{kind}_tokens"], *key, kind)
