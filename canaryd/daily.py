"""One measurement day of one series, start to finish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta

from canaryd import graders, schedule
from canaryd.analysis import EPOCH, analyse
from canaryd.config import Config, Retry, SeriesConfig
from canaryd.errors import CanarydError, UsageError
from canaryd.panel import Panel
from canaryd.providers.base import Provider
from canaryd.records import Arm, Ask, Failure, Grade, Run, RunEnd, RunStart, Sample, Verdict
from canaryd.runner.clock import Clock, clock_of
from canaryd.runner.execute import Execution, Lane, execute
from canaryd.runner.harness import arm_fingerprint
from canaryd.runner.plan import plan_asks, without
from canaryd.runner.project import LEASE_POLICY, frozen_panel, held, provider_builder, registered_series
from canaryd.runner.record import Recorder
from canaryd.runner.validity import run_invalid_reason
from canaryd.store import read, samples, write
from canaryd.store.engine import Store, open_store
from canaryd.store.lease import Lease, renew_lease
from canaryd.store.rows import AlreadyClaimed, Invalid, Series, Span


@dataclass(frozen=True, slots=True)
class Day:
    """What a measurement day is done with; the caller holds the lease and has checked that nothing drifted."""

    config: SeriesConfig
    series: Series
    panel: Panel
    slot_date: date
    store: Store
    lease: Lease
    clock: Clock
    retry: Retry
    due_minute: int
    build_provider: Callable[[Arm], Provider]


@dataclass(frozen=True, slots=True)
class DayResult:
    """What a day came to: its runs (none when nothing was owed) and the verdicts that became due."""

    runs: tuple[Run, ...]
    verdicts: tuple[Verdict, ...]


def measure_slot(config: Config, series_config: SeriesConfig, *, slot_date: date) -> DayResult:
    """Measure one slot of a series of a project, with everything that was pinned checked first.

    Raises:
        MeasurementRefused: panel or registration are not those that were registered; nothing was asked.
        UsageError: the series is not registered, or begins later.
        Locked: another living process holds the series.
    """
    panel, clock = frozen_panel(series_config), clock_of(config)
    with open_store(config.store_url) as store:
        series = registered_series(series_config, panel, store=store)
        if slot_date < series.start_date:
            raise UsageError(
                f"series {series.name!r} begins on {series.start_date}; there is nothing to measure before"
            )
        with held(store, series.name, clock=clock) as lease:
            return measure(
                Day(
                    config=series_config,
                    series=series,
                    panel=panel,
                    slot_date=slot_date,
                    store=store,
                    lease=lease,
                    clock=clock,
                    retry=config.retry,
                    due_minute=config.schedule.due_minute,
                    build_provider=provider_builder(config, panel),
                )
            )


def decide_due(config: Config, series_name: str) -> tuple[Verdict, ...]:
    """Decide the windows of a series that have ended by now, without measuring anything; return the new verdicts.

    Raises:
        Locked: another living process holds the series.
    """
    clock = clock_of(config)
    with open_store(config.store_url) as store, held(store, series_name, clock=clock) as lease:
        return analyse(store, series_name, lease=lease, now=clock.now())


def measure(day: Day) -> DayResult:
    """Close what an earlier process left open, ask what is owed, store each answer as it lands, decide what is due.

    Raises:
        Locked: another process took the series over.
        StoreUnavailable: the store failed; what it had acknowledged stays.
        ConfigError, CredentialsError: an arm cannot be asked as configured; nothing was asked.
    """
    close_abandoned(day)
    close_unmeasured(day)
    asks = owed_asks(day)
    runs = claim(day, arms={ask.arm for ask in asks})
    if runs:
        lanes = asyncio.run(ask_all(day, asks, runs=runs))
        runs = tuple(end_run(day, run, lane=lanes[run.start.arm]) for run in runs)
    return DayResult(runs, analyse(day.store, day.series.name, lease=day.lease, now=day.clock.now()))


def close_abandoned(day: Day) -> None:
    """End the runs that a process which died left open; what they stored stays and is not asked again."""
    with day.store.read() as connection:
        left_open = read.open_runs(connection, day.series.name)
    for run in left_open:
        ended = RunEnd(day.clock.now(), "abandoned", "the process that ran it ended without closing it")
        write.end_run(day.store, ended, run_id=run.run_id, lease=day.lease)


def close_unmeasured(day: Day) -> None:
    """Store the past slots that nobody ran as missed: a day without data is a row with a reason, never an absence."""
    with day.store.read() as connection:
        runs = read.runs(connection, day.series.name)
    claimed = {run.start.slot_date for run in runs}
    for missed in schedule.unmeasured_slots(day.series.start_date, today=day.slot_date, claimed=claimed):
        starts = [_start(day, arm.name, slot_date=missed, attempt=1, fingerprint=None) for arm in day.config.arms]
        ended = RunEnd(day.clock.now(), "missed", "no process ran on that day")
        write.record_missed(day.store, starts, end=ended, lease=day.lease, epoch=EPOCH)


def owed_asks(day: Day) -> tuple[Ask, ...]:
    """Return the asks of the slot whose samples are not final yet, all arms interleaved."""
    planned = plan_asks(
        day.panel.items,
        arms=[arm.name for arm in day.config.arms],
        series=day.series.name,
        slot_date=day.slot_date,
        seed=day.series.seed,
        system=day.panel.system,
    )
    with day.store.read() as connection:
        final = [
            samples.final_samples(connection, day.series.name, arm=arm.name, slot_date=day.slot_date)
            for arm in day.config.arms
        ]
    return without(planned, frozenset().union(*final))


def claim(day: Day, *, arms: set[str]) -> tuple[Run, ...]:
    """Return the runs claimed for the arms that owe something, all or none; none when another process claimed them."""
    if not arms:
        return ()
    with day.store.read() as connection:
        runs = read.runs(connection, day.series.name, first=day.slot_date, last=day.slot_date)
    starts = []
    for arm in day.config.arms:
        if arm.name in arms:
            attempt = 1 + max((run.start.attempt for run in runs if run.start.arm == arm.name), default=0)
            fingerprint = arm_fingerprint(arm, day.panel, day.build_provider(arm)).digest
            starts.append(_start(day, arm.name, slot_date=day.slot_date, attempt=attempt, fingerprint=fingerprint))
    claimed = write.claim_slot(day.store, starts, lease=day.lease, epoch=EPOCH)
    return () if isinstance(claimed, AlreadyClaimed) else claimed


def _start(day: Day, arm: str, *, slot_date: date, attempt: int, fingerprint: str | None) -> RunStart:
    return RunStart(
        series=day.series.name,
        arm=arm,
        slot_date=slot_date,
        attempt=attempt,
        started_at=day.clock.now(),
        due_at=schedule.due_at(slot_date, day.due_minute),
        panel_digest=day.series.panel_digest,
        registration_digest=day.series.registration_digest,
        fingerprint=fingerprint,
    )


async def ask_all(day: Day, asks: Sequence[Ask], *, runs: Sequence[Run]) -> Mapping[str, Lane]:
    """Ask everything that is owed and return the lanes with their results."""
    arms = {arm.name: arm for arm in day.config.arms}
    lanes = {
        run.start.arm: Lane(arms[run.start.arm], day.build_provider(arms[run.start.arm]), run.run_id) for run in runs
    }
    recorder = Recorder(lambda rows: _append(day, rows))
    heartbeat = asyncio.create_task(_keep_lease(day))
    try:
        await execute(asks, Execution(lanes, _grade_with(day.panel), recorder, day.retry, day.clock))
    finally:
        heartbeat.cancel()
        recorder.close()
        for lane in lanes.values():
            await lane.provider.aclose()
    return lanes


def end_run(day: Day, run: Run, *, lane: Lane) -> Run:
    """Close a run with what became of it, and mark its slot invalid where nearly nothing of it is a measurement."""
    start = run.start
    with day.store.read() as connection:
        span = Span(start.series, start.arm, start.slot_date, start.slot_date)
        stored = samples.samples(connection, span)
        final = samples.final_samples(connection, start.series, arm=start.arm, slot_date=start.slot_date)
    planned = sum(item.replicates for item in day.panel.items)
    if lane.config_error is not None:
        ended = RunEnd(day.clock.now(), "config_error", f"{lane.config_error.kind}: {lane.config_error.detail}")
    elif len(final) < planned:
        ended = RunEnd(day.clock.now(), "incomplete", _why_incomplete(lane, missing=planned - len(final), of=planned))
    else:
        ended = RunEnd(day.clock.now(), "completed")
    invalid = run_invalid_reason([sample.result for sample in stored])
    if invalid is not None:
        note = f"{len(stored)} samples of {start.arm} on {start.slot_date}"
        write.append_validity(day.store, Invalid(invalid, note, day.clock.now(), run_id=run.run_id))
    write.end_run(day.store, ended, run_id=run.run_id, lease=day.lease)
    return Run(run.run_id, start, ended)


def _why_incomplete(lane: Lane, *, missing: int, of: int) -> str:
    kinds = sorted({result.kind for result in lane.results if isinstance(result, Failure) and result.is_harness})
    because = "the UTC day ended" if lane.out_of_time else f"failures: {', '.join(kinds)}"
    return f"{missing} of {of} samples are not measured ({because})"


def _append(day: Day, rows: Sequence[tuple[int, Sample]]) -> None:
    for run_id in dict.fromkeys(run_id for run_id, _ in rows):
        write.append_samples(
            day.store, [sample for row, sample in rows if row == run_id], run_id=run_id, lease=day.lease
        )


def _grade_with(panel: Panel) -> Callable[[Ask, str], Grade | Failure]:
    items = {item.item_id: item for item in panel.items}

    def grade(ask: Ask, text: str) -> Grade | Failure:
        try:
            return graders.grade(items[ask.item_id], text)
        except graders.GraderError as error:
            return Failure("grader_error", str(error))

    return grade


async def _keep_lease(day: Day) -> None:
    """Renew the lease until cancelled; where it is lost, the next sample's own check stops the run with the reason."""
    with suppress(CanarydError):
        while True:
            await asyncio.sleep(LEASE_POLICY.ttl / timedelta(seconds=3))
            await asyncio.to_thread(renew_lease, day.store, day.lease, now=day.clock.now(), policy=LEASE_POLICY)
