"""The status of the series of a project, read from its store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import date, timedelta

from sqlalchemy import Connection

from canaryd import __version__
from canaryd import prereg as registration
from canaryd.config import Budget, Config, SeriesConfig
from canaryd.errors import UsageError
from canaryd.judging import JudgeDay, judge_days
from canaryd.prereg import Prereg
from canaryd.records import Alarm
from canaryd.runner.carried import carried
from canaryd.runner.clock import FrozenClock, clock_of
from canaryd.schedule import SlotPolicy, policy_of
from canaryd.status.build import build_status
from canaryd.status.model import BudgetLine, SeriesRecords, Status
from canaryd.store import harness, judges, read, sentinels
from canaryd.store.acknowledgements import acknowledgements
from canaryd.store.engine import open_store
from canaryd.store.epochs import deviations, epochs
from canaryd.store.lease import living_lease
from canaryd.store.notes import days_set_aside, invalid_runs, set_aside_by_hand, slots_without_canary
from canaryd.store.process import is_alive
from canaryd.store.rows import Series
from canaryd.store.sentinels import SentinelDay
from canaryd.windows import Grid, utc_date


def read_status(config: Config, series_name: str | None = None) -> Status:
    """Return the status of the registered series of a configuration, or of one of them.

    Raises:
        StoreUnavailable: there is no store, or its schema is not current.
        ConfigError: the configuration has no series of that name.
        UsageError: no series is registered yet.
    """
    clock = clock_of(config)
    wanted: Sequence[str] = [one.name for one in ([config.one_series(series_name)] if series_name else config.series)]
    with open_store(config.store_url) as store, store.read() as connection:
        records = [
            replace(
                series_records(connection, series, policy=policy_of(config)),
                budget=_budget(connection, config, series=config.one_series(series.name), today=utc_date(clock.now())),
                is_held=living_lease(connection, series.name, now=clock.now(), is_alive=is_alive) is not None,
            )
            for series in read.all_series(connection)
            if series.name in wanted
        ]
    if not records:
        raise UsageError(f"no series of {config.path} is registered in {store.name}; run `canaryd register`")
    kind = "demo" if isinstance(clock, FrozenClock) else "system"
    return build_status(records, now=clock.now(), version=__version__, store=store.name, clock=kind)


def series_records(connection: Connection, series: Series, *, policy: SlotPolicy) -> SeriesRecords:
    """Return the stored rows of a series that its status is made of; `policy` is the schedule as configured."""
    name = series.name
    protocol = registration.parse(read.registration(connection, name), source=f"registration of {name}")
    arms, alarms, verdicts = (
        read.arms(connection, name),
        read.alarms(connection, name),
        read.last_verdicts(connection, name),
    )
    known, notes = epochs(connection, series), deviations(connection, name)
    alarm = alarms[-1] if alarms else None
    last_ended = {arm.name: read.latest_run(connection, name, arm=arm.name, outcome="ended") for arm in arms}
    return SeriesRecords(
        series=series,
        arms=arms,
        grid=Grid(known[-1].first_date, protocol.rule.baseline_days, protocol.rule.window_days),
        epochs=known,
        deviations=notes,
        carried=carried(verdicts, known, deviations=notes),
        alarm_epoch=_epoch_of(connection, alarm),
        sentinel_days=_recent_sentinels(connection, name, slots=protocol.sentinels.collapse_slots),
        sentinel_params=protocol.sentinels,
        judge=_latest_judge(connection, name, protocol=protocol),
        judge_is_primary=protocol.judge is not None and protocol.judge.primary,
        min_effect=protocol.rule.min_effect,
        policy=replace(policy, expected=harness.last_duration(connection, name)),
        latest_slot=read.latest_slot(connection, name),
        refused_since=read.refused_since(connection, name, arm=arms[0].name),
        verdict=verdicts[-1] if verdicts else None,
        alarm=alarm,
        acknowledgements=acknowledgements(connection, name),
        early_warnings={
            stream: read.early_warning_marks(connection, name, stream=stream)
            for stream in protocol.early_warning.streams
        },
        last_completed={arm.name: read.latest_run(connection, name, arm=arm.name, outcome="completed") for arm in arms},
        last_ended=last_ended,
        set_aside=invalid_runs(connection, [run.run_id for run in last_ended.values() if run is not None]),
        open_runs=read.open_runs(connection, name),
        days_set_aside=days_set_aside(connection, name),
        quarantined=set_aside_by_hand(connection, name),
        slots_without_canary=slots_without_canary(connection, name),
    )


def _budget(connection: Connection, config: Config, *, series: SeriesConfig, today: date) -> tuple[BudgetLine, ...]:
    """Return each limit of a series with what is used up of it."""
    limits = {limit.name: most for limit in fields(Budget) if (most := getattr(series.budget, limit.name)) is not None}
    if not limits:
        return ()
    # What was spent is asked for only where it is limited: a status without a budget starts faster.
    from canaryd.runner.spent import used_up

    used = used_up(connection, series, prices=config.prices, today=today)
    split = {name: name.partition("_per_") for name in limits}
    return tuple(
        BudgetLine(name, getattr(getattr(used, split[name][2]), split[name][0]), most) for name, most in limits.items()
    )


def _epoch_of(connection: Connection, alarm: Alarm | None) -> int | None:
    """Return the epoch of the verdict that an alarm state rests on, or None."""
    if alarm is None or alarm.verdict_id is None:
        return None
    return read.epoch_of_verdict(connection, alarm.verdict_id)


def _recent_sentinels(connection: Connection, name: str, *, slots: int) -> tuple[SentinelDay, ...]:
    newest = sentinels.last_day(connection, name)
    return sentinels.days(connection, name, first=newest - timedelta(days=slots - 1)) if newest else ()


def _latest_judge(connection: Connection, name: str, *, protocol: Prereg) -> JudgeDay | None:
    if protocol.judge is None:
        return None
    days = judge_days(judges.readings(connection, name), max_anchors_moved=protocol.judge.max_anchors_moved)
    return days[-1] if days else None
