"""From stored rows and the time to a Status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, cast

from canaryd.judging import JudgeDay
from canaryd.records import AlarmState, Run
from canaryd.schedule import Owing, due_slots, next_due
from canaryd.stats.watch_state import SentinelState, early_warning_state, sentinel_series_state
from canaryd.status.model import (
    AcknowledgedState,
    AcrossEpochs,
    ArmFigures,
    BlockedSeries,
    CarriedChange,
    Coincidence,
    DeviationNote,
    JudgeStatus,
    LastRun,
    OpenRun,
    Quarantine,
    Sentinels,
    SentinelStatus,
    SeriesRecords,
    SeriesStatus,
    Status,
    StreamStatus,
    WindowFigures,
)
from canaryd.status.remedies import REMEDIES, blocked_by
from canaryd.store.notes import SetAside
from canaryd.store.rows import StoredArm, StoredVerdict
from canaryd.windows import Grid, utc_date

STALE_AFTER = timedelta(hours=26)


def build_status(records: Sequence[SeriesRecords], *, now: datetime, version: str, store: str, clock: str) -> Status:
    """Return the status of the given series at `now`."""
    return Status(version, store, now, clock, tuple(series_status(one, now) for one in records))


def series_status(records: SeriesRecords, now: datetime) -> SeriesStatus:
    """Return the status of one series at `now`."""
    series, grid = records.series, records.grid
    watched = [arm.name for arm in records.arms if arm.role != "replica"]
    last_success = _last_success([records.last_completed[arm] for arm in watched])
    window = _window(records.verdict, records) if records.verdict else None
    return SeriesStatus(
        name=series.name,
        tracked_model=records.arms[0].model,
        state=_state(records),
        since=records.alarm.since if records.alarm else series.registered_at,
        acknowledged=_acknowledged(records, now),
        series_day=grid.series_day(utc_date(now)),
        phase=_phase(grid, utc_date(now)),
        epoch=records.epochs[-1].number,
        carried=_carried(records.carried) if records.carried else None,
        deviations=tuple(DeviationNote(note.slot_date, note.kind, note.reason) for note in records.deviations),
        sentinels=_sentinels(records) if records.sentinel_days else None,
        judge=_judge(records.judge, primary=records.judge_is_primary) if records.judge else None,
        min_effect=records.min_effect,
        window=window,
        early_warnings=tuple(
            _stream(name, rows, decided_through=window.last if window else None)
            for name, rows in records.early_warnings.items()
            if rows
        ),
        last_success=last_success,
        stale=_is_stale(last_success or datetime.combine(series.start_date, time(), UTC), now),
        last_runs=tuple(_last_run(run, records.set_aside) for run in records.last_ended.values() if run is not None),
        next_run=_next_run(records, now),
        budget=records.budget,
        open_runs=tuple(
            OpenRun(run.start.arm, run.start.slot_date, run.start.started_at, records.is_held)
            for run in records.open_runs
        ),
        quarantines=_quarantines(records.quarantined),
        slots_without_canary=records.slots_without_canary,
        blocked=_blocked(records),
    )


def _state(records: SeriesRecords) -> AlarmState:
    """Return the alarm state; one of an earlier epoch counts only while it is a change that is carried."""
    if records.alarm is None:
        return "warming_up"
    is_over = records.alarm_epoch not in (None, records.epochs[-1].number)
    return "warming_up" if is_over and records.carried is None else records.alarm.state


def _acknowledged(records: SeriesRecords, now: datetime) -> AcknowledgedState | None:
    given = records.acknowledgements.get(_state(records))
    return AcknowledgedState(given.until, given.reason) if given is not None and given.is_in_force(now) else None


def _carried(stored: StoredVerdict) -> CarriedChange:
    verdict = stored.verdict
    return CarriedChange(verdict.epoch, verdict.window_index, verdict.direction, verdict.attribution)


def _sentinels(records: SeriesRecords) -> Sentinels:
    newest = records.sentinel_days[-1].slot_date
    slots: dict[date, dict[str, SentinelState]] = {
        newest - timedelta(days=n): {} for n in range(records.sentinel_params.collapse_slots)
    }
    for day in records.sentinel_days:
        slots[day.slot_date][day.item_id] = day.state
    today, *before = slots.values()
    return Sentinels(
        sentinel_series_state(today, before=before, params=records.sentinel_params),
        newest,
        tuple(
            SentinelStatus(
                day.item_id,
                day.state,
                baseline_samples=day.baseline_n,
                baseline_mean=day.baseline_mean,
                today_mean=day.today_mean,
                low=day.low,
                high=day.high,
            )
            for day in records.sentinel_days
            if day.slot_date == newest
        ),
    )


def _judge(day: JudgeDay, *, primary: bool) -> JudgeStatus:
    reading = day.reading
    return JudgeStatus(
        identity=reading.identity,
        state=day.state,
        primary=primary,
        slot_date=reading.slot_date,
        agreeing=reading.agreeing,
        judged=len(reading.said),
        anchors=len(reading.people),
        moved=day.moved,
        resolved_models=reading.resolved,
        sentence=day.sentence,
    )


def _is_stale(since: datetime, now: datetime) -> bool:
    return now - since > STALE_AFTER


def _last_success(completed: Sequence[Run | None]) -> datetime | None:
    """Return when the last slot ended that every watched arm completed; the oldest of their latest ones."""
    ends = [run.end.ended_at for run in completed if run is not None and run.end is not None]
    return min(ends) if len(ends) == len(completed) else None


def _phase(grid: Grid, today: date) -> str:
    day = grid.series_day(today)
    if day < 1:
        return f"begins on {grid.start}"
    index = grid.index_of(today)
    within = (today - grid.window(index).first).days + 1
    length = grid.window_days if index else grid.baseline_days
    return f"day {within} of {length} of {f'window {index}' if index else 'the baseline'}"


def _next_run(records: SeriesRecords, now: datetime) -> datetime:
    owing = Owing([arm.name for arm in records.arms], max(records.series.start_date, utc_date(now)))
    runs = [run for run in records.latest_slot if run.start.slot_date >= owing.first]
    decision = due_slots(runs, now, owing=owing, policy=records.policy)[-1]
    return next_due(decision, now, owing=owing, policy=records.policy)


def _blocked(records: SeriesRecords) -> BlockedSeries | None:
    """Return what the series is blocked by: without its tracked arm it measures nothing that decides."""
    last = records.last_ended[records.arms[0].name]
    reason = blocked_by(last.end.outcome, last.end.reason) if last is not None and last.end is not None else None
    if reason is None or records.refused_since is None:
        return None
    return BlockedSeries(reason, records.refused_since, REMEDIES[reason].format(series=records.series.name))


def _last_run(run: Run, set_aside: Mapping[int, str]) -> LastRun:
    assert run.end is not None
    return LastRun(
        run.start.arm,
        run.start.slot_date,
        run.end.outcome,
        run.end.reason,
        blocked=blocked_by(run.end.outcome, run.end.reason),
        set_aside=set_aside.get(run.run_id),
    )


def _stream(name: str, rows: Sequence[Any], *, decided_through: date | None) -> StreamStatus:
    state = early_warning_state(rows, decided_through=decided_through)
    alarms = [row for row in rows if row.alarm]
    shown = alarms[-1] if state == "alarm" else rows[-1]
    last_alarm = alarms[-1] if alarms else None
    return StreamStatus(
        stream=name,
        state=state,
        capital=shown.capital,
        threshold=shown.threshold,
        onset=rows[-1].onset,
        alarmed_on=last_alarm.slot_date if last_alarm else None,
        alarm_onset=last_alarm.onset if last_alarm else None,
    )


def _quarantines(runs: Sequence[SetAside]) -> tuple[Quarantine, ...]:
    """Return one entry for each slot and reason, however many runs it had."""
    arms: dict[tuple[date, str], dict[str, datetime]] = {}
    for run in runs:
        arms.setdefault((run.slot_date, run.reason), {})[run.arm] = run.at
    return tuple(Quarantine(day, tuple(found), reason, max(found.values())) for (day, reason), found in arms.items())


def _window(stored: StoredVerdict, records: SeriesRecords) -> WindowFigures:
    verdict = stored.verdict
    grid = replace(records.grid, start=next(one.first_date for one in records.epochs if one.number == verdict.epoch))
    clauses: Mapping[str, Any] = verdict.clauses
    mde = clauses["mde"]
    return WindowFigures(
        epoch=verdict.epoch,
        index=verdict.window_index,
        first=date.fromisoformat(clauses["first"]),
        last=date.fromisoformat(clauses["last"]),
        verdict=verdict.kind,
        direction=verdict.direction,
        attribution=verdict.attribution,
        reasons=verdict.reasons,
        mde=mde["two_windows"] if mde else None,
        state=clauses["window"]["state"],
        panel_items=clauses["panel_items"],
        sentinels_excluded=clauses.get("sentinels_excluded", 0),
        judged_excluded=clauses.get("judged_excluded", 0),
        arms=tuple(
            _arm(
                arm,
                clauses,
                window_aside=_count_in(grid, verdict.window_index, days=records.days_set_aside.get(arm.name, ())),
                baseline_aside=_count_in(grid, 0, days=records.days_set_aside.get(arm.name, ())),
            )
            for arm in records.arms
            if arm.name in clauses["arms"]
        ),
        across_epochs=tuple(
            _across(one, arm, estimate=estimate)
            for one in clauses.get("across_epochs", ())
            for arm, estimate in one["arms"].items()
        ),
        coincides_with=tuple(
            Coincidence(date.fromisoformat(one["date"]), one["kind"], one["text"])
            for one in clauses.get("coincides_with", ())
        ),
    )


def _count_in(grid: Grid, index: int, *, days: Sequence[date]) -> int:
    """Return how many of the days lie in a window; 0 is the baseline."""
    return sum(grid.index_of(day) == index for day in days)


def _across(one: Mapping[str, Any], arm: str, *, estimate: Mapping[str, Any]) -> AcrossEpochs:
    lower, upper = estimate.get("ci") or (None, None)
    first, last = date.fromisoformat(one["first"]), date.fromisoformat(one["last"])
    return AcrossEpochs(one["epoch"], first, last, arm, estimate["delta"], lower, upper)


def _estimate(arm: StoredArm, clauses: Mapping[str, Any]) -> Mapping[str, Any]:
    if arm.role == "replica":
        return cast("Mapping[str, Any]", clauses["replicas"][arm.name])
    window = clauses["window"] if arm.role == "tracked" else clauses["controls"][arm.name]["window"]
    return cast("Mapping[str, Any]", window["estimate"])


def _arm(arm: StoredArm, clauses: Mapping[str, Any], *, window_aside: int, baseline_aside: int) -> ArmFigures:
    estimate, beside = _estimate(arm, clauses), clauses["arms"][arm.name]
    tokens = beside["tokens"]
    lower, upper = estimate.get("ci") or (None, None)
    token_lower, token_upper = tokens["ci"] or (None, None)
    wrong, resolved = beside.get("counted_as_wrong") or {}, beside.get("resolved", {})
    wrong_lower, wrong_upper = wrong.get("ci") or (None, None)
    judged = beside.get("judged") or {}
    judged_lower, judged_upper = judged.get("ci") or (None, None)
    return ArmFigures(
        arm=arm.name,
        role=arm.role,
        status=estimate["status"],
        delta=estimate["delta"],
        ci_lower=lower,
        ci_upper=upper,
        standard_error=estimate.get("se_used"),
        pairs=estimate["items_paired"],
        token_pairs=tokens["log_ratio"]["items_paired"],
        token_state=tokens["state"],
        token_change=tokens["change"],
        token_ci_lower=token_lower,
        token_ci_upper=token_upper,
        outcome_rate_state=beside["outcomes"]["state"],
        headroom=beside["headroom"]["state"] if beside["headroom"] else None,
        wrong_delta=wrong.get("delta"),
        wrong_ci_lower=wrong_lower,
        wrong_ci_upper=wrong_upper,
        judged_delta=judged.get("delta"),
        judged_ci_lower=judged_lower,
        judged_ci_upper=judged_upper,
        resolved_models=tuple(resolved.get("models", ())),
        resolved_standing=tuple(resolved.get("standing", ())),
        configuration_deltas=tuple(beside.get("configuration", {}).get("deltas", ())),
        days_set_aside=window_aside,
        baseline_days_set_aside=baseline_aside,
    )
