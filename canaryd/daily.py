"""One measurement day of one series, start to finish."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection

from canaryd.analysis import analyse
from canaryd.config import Config, SeriesConfig
from canaryd.errors import ConfigError, CredentialsError, Locked, MeasurementRefused, UsageError
from canaryd.records import Ask, Failure, Run, RunEnd, RunOutcome, Sample, Verdict
from canaryd.runner.calls import TOLD_TO_END, Drained, is_told_to_end
from canaryd.runner.clock import clock_of
from canaryd.runner.closing import Books, Refused, close_past, mark_slot, next_start, refuse_arm, refuse_slot, slot_runs
from canaryd.runner.execute import Execution, Lane, execute
from canaryd.runner.grading import Grading
from canaryd.runner.happened import record_happened
from canaryd.runner.harness import surroundings
from canaryd.runner.judge import JudgeBench
from canaryd.runner.preflight import Preflight, open_lanes, preflight
from canaryd.runner.project import held, keep_lease
from canaryd.runner.record import Recorder
from canaryd.runner.reports import ask_again, reports_of
from canaryd.runner.slot import Slot, slot_of
from canaryd.runner.validity import CANARY_FAILED
from canaryd.store import harness, judges, observed, read, samples, write
from canaryd.store.engine import open_store
from canaryd.store.epochs import Deviation, add_deviation
from canaryd.store.notes import invalid_runs
from canaryd.store.retention import expire_old_texts
from canaryd.store.rows import AlreadyClaimed, Invalid
from canaryd.target_config import recorded
from canaryd.wording import counted


@dataclass(frozen=True, slots=True)
class Day:
    """A slot that is measured now, and the books of its series; without `canary` the trivial task is left out."""

    slot: Slot
    books: Books
    canary: bool = True


@dataclass(frozen=True, slots=True)
class DayResult:
    """What a day came to: its runs (none when nothing was owed) and the verdicts that became due.

    `set_aside` says by arm why nothing of the slot enters an analysis, where that is so; `succeeded` whether the
    tracked arm and every control completed it, in whichever attempt, with something that does.
    """

    runs: tuple[Run, ...]
    verdicts: tuple[Verdict, ...]
    set_aside: Mapping[str, str]
    succeeded: bool


def measure_slot(config: Config, series_config: SeriesConfig, *, slot_date: date, canary: bool = True) -> DayResult:
    """Measure one slot of a series of a project, with everything that was pinned checked first.

    Whatever is refused is stored with its reason, and nothing was asked of what was refused.

    Raises:
        MeasurementRefused: panel or registration are not those that were registered, or the clock leapt ahead.
        ConfigError, CredentialsError: the project, or its judge, cannot be used as configured.
        UsageError: the series is not registered, or begins later.
        Locked: another living process holds the series.
    """
    clock = clock_of(config)
    with open_store(config.store_url) as store:
        with store.read() as connection:
            series = read.series(connection, series_config.name)
        if slot_date < series.start_date:
            raise UsageError(
                f"series {series.name!r} begins on {series.start_date}; there is nothing to measure before"
            )
        with held(store, series.name, clock=clock) as lease:
            books = Books(store, series, lease, clock=clock, due_minute=config.schedule.due_minute)
            close_past(books)
            try:
                slot = slot_of(config, series_config, store=store, slot_date=slot_date)
                result = measure(Day(slot, books, canary=canary))
            except (MeasurementRefused, ConfigError, CredentialsError) as error:
                refuse_slot(books, slot_date, reason=f"{_blocked_reason(error)}: {error}")
                raise
            if (keep_days := config.retain_texts_days) is not None:
                expire_old_texts(store, series.name, keep_days=keep_days, today=slot_date, now=clock.now())
            return result


def _blocked_reason(error: MeasurementRefused | ConfigError | CredentialsError) -> str:
    if isinstance(error, MeasurementRefused):
        return error.reason
    return "credentials" if isinstance(error, CredentialsError) else "configuration"


def decide_due(config: Config, series_name: str) -> tuple[Verdict, ...]:
    """Decide the windows of a series that have ended by now, without measuring anything; return the new verdicts.

    Raises:
        MeasurementRefused: the clock leapt ahead; nothing was closed.
        Locked: another living process holds the series.
    """
    clock = clock_of(config)
    with open_store(config.store_url) as store, held(store, series_name, clock=clock) as lease:
        with store.read() as connection:
            series = read.series(connection, series_name)
        close_past(Books(store, series, lease, clock=clock, due_minute=config.schedule.due_minute))
        return analyse(store, series_name, lease=lease, now=clock.now())


def measure(day: Day) -> DayResult:
    """Ask what is owed, store each answer as it lands, decide what is due.

    Raises:
        Locked: another process took the series over.
        StoreUnavailable: the store failed; what it had acknowledged stays.
        ConfigError, CredentialsError: the judge cannot be asked as configured; nothing was asked.
        Drained: the process was told to end; what landed is stored, and the slot goes on where it stopped.
    """
    slot, books = day.slot, day.books
    asks = slot.owed()
    settled = settle(day, owing={ask.arm for ask in asks})
    runs = asyncio.run(measure_owed(day, asks)) if asks else ()
    left = [f"{run.start.arm}: {run.end.reason}" for run in runs if run.end and run.end.outcome != "completed"]
    if left and is_told_to_end():
        raise Drained(
            f"the slot {slot.slot_date} of {slot.series.name} is not complete ({'; '.join(left)}); what landed is "
            "stored, and the same day canaryd goes on from there"
        )
    verdicts = analyse(slot.store, slot.series.name, lease=books.lease, now=slot.clock.now())
    ended = (*settled, *runs)
    with slot.store.read() as connection:
        marked = invalid_runs(connection, [run.run_id for run in ended])
        succeeded = _succeeded(connection, slot)
    set_aside = {run.start.arm: marked[run.run_id] for run in ended if run.run_id in marked}
    return DayResult(ended, verdicts, set_aside, succeeded)


def _succeeded(connection: Connection, slot: Slot) -> bool:
    watched = [arm.name for arm in slot.config.arms if arm.role != "replica"]
    latest = [read.latest_run(connection, slot.series.name, arm=arm, outcome="completed") for arm in watched]
    return all(run is not None and run.start.slot_date == slot.slot_date for run in latest)


def settle(day: Day, *, owing: set[str]) -> tuple[Run, ...]:
    """Close as completed the arms whose samples are all there, where the process that took them ended before it did."""
    books, date_ = day.books, day.slot.slot_date
    settled: list[Run] = []
    for arm in day.slot.config.arms:
        runs = slot_runs(books, arm.name, slot_date=date_)
        if arm.name in owing or not runs or any(run.end and run.end.outcome == "completed" for run in runs):
            continue
        ended = RunEnd(books.clock.now(), "completed", "every sample was stored by an earlier attempt")
        start = next_start(books, arm.name, slot_date=date_, fingerprint=runs[-1].start.fingerprint)
        stored = write.record_missed(books.store, [start], end=ended, lease=books.lease, epoch=day.slot.epoch.number)
        if not isinstance(stored, AlreadyClaimed):
            settled += stored
            mark_slot(books, slot_runs(books, arm.name, slot_date=date_))
    return tuple(settled)


async def measure_owed(day: Day, asks: Sequence[Ask]) -> tuple[Run, ...]:
    """Check every arm that owes something, close those that fail, and ask the others; return how their runs ended."""
    heartbeat = asyncio.create_task(keep_lease(day.books.store, day.books.lease, clock=day.books.clock))
    try:
        async with open_lanes(day.slot, {ask.arm for ask in asks}) as (lanes, unasked):
            checked = await preflight(day.slot, lanes, asks=asks, canary=day.canary)
            checked.findings += unasked
            refused = close_unfit(day, checked, lanes=lanes)
            fit = {name: lane for name, lane in lanes.items() if checked.problem_of(name) is None}
            opened = claim(day, checked, lanes=fit)
            if opened:
                await ask_all(day, [ask for ask in asks if ask.arm in fit], lanes=fit)
            return (*refused, *(end_run(day, run, lane=fit[run.start.arm]) for run in opened))
    finally:
        heartbeat.cancel()


def close_unfit(day: Day, checked: Preflight, *, lanes: Mapping[str, Lane]) -> tuple[Run, ...]:
    """Close the arms that did not pass, each with its reason and what its check used up; nothing of them is banked."""
    books, closed = day.books, list[Run]()
    for fingerprint in checked.fingerprints.values():
        harness.keep_fingerprint(books.store, fingerprint.digest, components=fingerprint.components)
    for arm in (arm.name for arm in day.slot.config.arms):
        problem, now = checked.problem_of(arm), checked.fingerprints.get(arm)
        if problem is not None:
            end = RunEnd(books.clock.now(), problem.outcome, problem.reason)
            spent = _spending(lanes[arm]) if arm in lanes and lanes[arm].usage.calls else None
            refused = Refused(
                arm, day.slot.slot_date, end=end, fingerprint=now.digest if now else None, spent=spent is not None
            )
            runs = refuse_arm(books, refused)
            if spent is not None:
                for run in runs:
                    harness.keep_usage(books.store, spent, run_id=run.run_id, lease=books.lease)
            for run in runs if problem.check == "canary" else ():
                note = Invalid(CANARY_FAILED, problem.problem or "", books.clock.now(), run_id=run.run_id)
                write.append_validity(books.store, note)
            closed += runs
    return tuple(closed)


def claim(day: Day, checked: Preflight, *, lanes: Mapping[str, Lane]) -> tuple[Run, ...]:
    """Return the runs claimed for the arms that passed, all or none.

    Raises:
        Locked: another process claimed them just now; nothing is asked.
    """
    slot, books = day.slot, day.books
    if not lanes:
        return ()
    at = books.clock.now()
    starts = [
        next_start(books, arm, slot_date=slot.slot_date, fingerprint=checked.fingerprints[arm].digest, at=at)
        for arm in lanes
    ]
    claimed = write.claim_slot(slot.store, starts, lease=books.lease, epoch=slot.epoch.number)
    if isinstance(claimed, AlreadyClaimed):
        raise Locked(
            f"the slot {claimed.slot_date} of {claimed.series} was claimed at {claimed.started_at:%H:%M:%SZ} by "
            "another process; nothing was asked here, look at that one"
        )
    for run in claimed:
        lane = lanes[run.start.arm]
        lane.run_id, lane.began_s = run.run_id, books.clock.monotonic_s()
        harness.keep_target(slot.store, recorded(lane.arm), run_id=run.run_id, lease=books.lease)
        harness.keep_surroundings(slot.store, surroundings(), run_id=run.run_id, lease=books.lease)
    if not day.canary:
        said = "the slot was measured without the trivial task"
        note = Deviation(slot.series.name, "no_canary", slot.slot_date, said, {}, at=books.clock.now())
        add_deviation(slot.store, note)
    return claimed


async def ask_all(day: Day, asks: Sequence[Ask], *, lanes: Mapping[str, Lane]) -> None:
    """Ask everything that is owed; each answer is graded and stored as it lands.

    An application that reports its configuration is asked once more at the end.
    """
    slot, judge = day.slot, day.slot.open_judge()
    items = {item.item_id: item for item in slot.panel.items}
    grading = Grading(items, slot.backend, rng=random.SystemRandom(), judge=judge)
    recorder = Recorder(lambda rows: _append(day.books, rows))
    try:
        if judge is not None:
            judge.lane.spare = next(iter(lanes.values())).spare
            await hold_to_anchors(day, judge, like=asks[0], run_id=_first_run(lanes))
        execution = Execution(lanes, grading.grade, recorder, slot.retry, slot.clock, seen=lambda id_: _seen(slot, id_))
        await execute(asks, execution)
        if day.canary:
            await ask_again(slot, lanes)
    finally:
        recorder.close()
        if judge is not None:
            spent = _spending(judge.lane)
            judges.keep_judge_usage(slot.store, spent, run_id=_first_run(lanes), lease=day.books.lease)
            await judge.lane.provider.aclose()


async def hold_to_anchors(day: Day, judge: JudgeBench, *, like: Ask, run_id: int) -> None:
    """Let the judge judge its anchors before the items of the slot, once a day unless one got no verdict."""
    slot, books = day.slot, day.books
    with slot.store.read() as connection:
        known = [each for each in judges.readings(connection, slot.series.name) if each.slot_date == slot.slot_date]
    if slot.judge is not None and not any(reading.is_whole for reading in known):
        reading = await judge.read(slot.judge, like, epoch=slot.epoch.number)
        judges.keep_reading(slot.store, reading, run_id=run_id, lease=books.lease)


def _first_run(lanes: Mapping[str, Lane]) -> int:
    """Return the run that what the arms share is stored with."""
    return min(lane.run_id for lane in lanes.values())


def end_run(day: Day, run: Run, *, lane: Lane) -> Run:
    """Close a run with what became of it and what it used up; a slot that is complete is judged as a whole."""
    books, start = day.books, run.start
    with books.store.read() as connection:
        final = samples.final_samples(connection, start.series, arm=start.arm, slot_date=start.slot_date)
    missing = sum(item.replicates for item in day.slot.panel.items) - len(final)
    if lane.config_error is not None:
        ended = RunEnd(books.clock.now(), "config_error", f"{lane.config_error.kind}: {lane.config_error.detail}")
    elif missing:
        outcome: RunOutcome = "abandoned" if lane.stopped == TOLD_TO_END else "incomplete"
        ended = RunEnd(books.clock.now(), outcome, _why_incomplete(lane, missing=missing))
    else:
        ended = RunEnd(books.clock.now(), "completed")
        mark_slot(books, slot_runs(books, start.arm, slot_date=start.slot_date))
    harness.keep_usage(books.store, _spending(lane), run_id=run.run_id, lease=books.lease)
    took_s = books.clock.monotonic_s() - lane.began_s
    harness.keep_duration(books.store, took_s, run_id=run.run_id, lease=books.lease)
    reports = reports_of(lane)
    record_happened(books, lane, slot_date=start.slot_date, run_id=run.run_id, reports=reports)
    if reports is not None:
        harness.keep_report(books.store, first=reports.first, last=reports.last, run_id=run.run_id, lease=books.lease)
    write.end_run(books.store, ended, run_id=run.run_id, lease=books.lease)
    return Run(run.run_id, start, ended)


def _spending(lane: Lane) -> harness.Spending:
    return harness.Spending(lane.usage.calls, lane.usage.input_tokens, lane.usage.output_tokens)


def _why_incomplete(lane: Lane, *, missing: int) -> str:
    kinds = sorted({result.kind for result in lane.results if isinstance(result, Failure) and result.is_harness})
    because = lane.stopped or f"failures: {', '.join(kinds)}"
    unpaid = f"; not all were asked again: {lane.unpaid}" if lane.unpaid else ""
    return f"{counted(missing, 'sample')} not measured ({because}{unpaid})"


def _append(books: Books, rows: Sequence[tuple[int, Sample]]) -> None:
    for run_id in dict.fromkeys(run_id for run_id, _ in rows):
        write.append_samples(
            books.store, [sample for row, sample in rows if row == run_id], run_id=run_id, lease=books.lease
        )


def _seen(slot: Slot, response_id: str) -> bool:
    with slot.store.read() as connection:
        return observed.response_seen(connection, slot.series.name, response_id=response_id)
