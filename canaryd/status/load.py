"""The status of the series of a project, read from its store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Connection

from canaryd import __version__
from canaryd import prereg as registration
from canaryd.config import Config
from canaryd.errors import UsageError
from canaryd.records import Alarm
from canaryd.runner.carried import carried
from canaryd.runner.clock import FrozenClock, clock_of
from canaryd.status.build import build_status
from canaryd.status.model import SeriesRecords, Status
from canaryd.store import read, sentinels
from canaryd.store.engine import open_store
from canaryd.store.epochs import deviations, epochs
from canaryd.store.rows import Series
from canaryd.store.sentinels import SentinelDay
from canaryd.windows import Grid


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
            series_records(connection, series, due_minute=config.schedule.due_minute)
            for series in read.all_series(connection)
            if series.name in wanted
        ]
    if not records:
        raise UsageError(f"no series of {config.path} is registered in {store.name}; run `canaryd register`")
    kind = "demo" if isinstance(clock, FrozenClock) else "system"
    return build_status(records, now=clock.now(), version=__version__, store=store.name, clock=kind)


def series_records(connection: Connection, series: Series, *, due_minute: int) -> SeriesRecords:
    """Return the stored rows of a series that its status is made of."""
    name = series.name
    protocol = registration.parse(read.registration(connection, name), source=f"registration of {name}")
    arms, alarms, verdicts = read.arms(connection, name), read.alarms(connection, name), read.verdicts(connection, name)
    known, notes = epochs(connection, series), deviations(connection, name)
    alarm = alarms[-1] if alarms else None
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
        min_effect=protocol.rule.min_effect,
        due_minute=due_minute,
        verdict=verdicts[-1] if verdicts else None,
        alarm=alarm,
        early_warnings={
            stream: read.early_warnings(connection, name, stream=stream) for stream in protocol.early_warning.streams
        },
        last_completed={arm.name: read.latest_run(connection, name, arm=arm.name, outcome="completed") for arm in arms},
        last_ended={arm.name: read.latest_run(connection, name, arm=arm.name, outcome="ended") for arm in arms},
    )


def _epoch_of(connection: Connection, alarm: Alarm | None) -> int | None:
    """Return the epoch of the verdict that an alarm state rests on, or None."""
    if alarm is None or alarm.verdict_id is None:
        return None
    every = read.verdicts(connection, alarm.series, superseded=True)
    return next(stored.verdict.epoch for stored in every if stored.verdict_id == alarm.verdict_id)


def _recent_sentinels(connection: Connection, name: str, *, slots: int) -> tuple[SentinelDay, ...]:
    newest = sentinels.last_day(connection, name)
    return sentinels.days(connection, name, first=newest - timedelta(days=slots - 1)) if newest else ()
