"""Asking: the planned asks of a slot, all arms interleaved, each answer graded and stored as it lands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Protocol

from canaryd.config import Retry
from canaryd.errors import CanarydError
from canaryd.providers.base import Provider, ProviderError
from canaryd.records import CONFIG_FAILURES, Arm, Ask, Failure, Grade, Reply, Sample
from canaryd.runner.clock import Clock
from canaryd.runner.plan import key_of
from canaryd.runner.retry import Spent, jitter_of, wait_s
from canaryd.runner.validity import failure_of

GradeReply = Callable[[Ask, str], Grade | Failure]


class Keep(Protocol):
    """Stores one sample of a run and returns when it is durable."""

    async def record(self, run_id: int, sample: Sample) -> None:
        """Store one sample of a run."""


@dataclass(slots=True)
class Lane:
    """One arm while it is being asked: its provider, its run and what stops it."""

    arm: Arm
    provider: Provider
    run_id: int
    results: list[Grade | Failure] = field(default_factory=list)
    config_error: Failure | None = None
    out_of_time: bool = False
    next_start_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Execution:
    """What every ask of a slot shares."""

    lanes: Mapping[str, Lane]
    grade: GradeReply
    keep: Keep
    retry: Retry
    clock: Clock


async def execute(asks: Sequence[Ask], execution: Execution) -> None:
    """Ask every ask once, in order, each arm within its own concurrency and rate; results land in the lanes.

    The first ask of each arm goes ahead alone: when it shows that the request itself is refused (a wrong key, no such
    model) that arm ends after this one call. No request starts after 24:00 UTC of its slot.

    Raises:
        CanarydError: the store refused a sample; nothing more is asked.
    """
    first = {ask.arm: ask for ask in reversed(asks)}
    try:
        await _ask_all(list(first.values()), execution, are_first=True)
        rest = [ask for ask in asks if ask is not first[ask.arm] and not execution.lanes[ask.arm].config_error]
        await _ask_all(rest, execution, are_first=False)
    except ExceptionGroup as group:
        raise _first_of(group) from None


async def _ask_all(asks: Sequence[Ask], execution: Execution, *, are_first: bool) -> None:
    free = {name: asyncio.Semaphore(lane.arm.concurrency) for name, lane in execution.lanes.items()}
    async with asyncio.TaskGroup() as group:
        for ask in asks:
            await free[ask.arm].acquire()
            await _wait_for_turn(execution.lanes[ask.arm], execution.clock)
            task = group.create_task(_sample(ask, execution, is_first=are_first))
            task.add_done_callback(partial(_release, free[ask.arm]))


def _release(semaphore: asyncio.Semaphore, _: asyncio.Task[None]) -> None:
    semaphore.release()


def _first_of(group: ExceptionGroup[Exception]) -> Exception:
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _wait_for_turn(lane: Lane, clock: Clock) -> None:
    if lane.arm.requests_per_minute is None:
        return
    wait = lane.next_start_s - clock.monotonic_s()
    if wait > 0:
        await clock.sleep(wait)
    lane.next_start_s = clock.monotonic_s() + 60.0 / lane.arm.requests_per_minute


async def _sample(ask: Ask, execution: Execution, *, is_first: bool) -> None:
    lane, clock = execution.lanes[ask.arm], execution.clock
    if clock.now() >= _end_of(ask):
        lane.out_of_time = True
        return
    asked_at = clock.now()
    try:
        result, reply, calls = await _ask_and_grade(ask, execution)
    except CanarydError:
        raise
    except Exception as error:  # the per-sample boundary: a fault of the harness is a failure, not a wrong answer
        result, reply, calls = Failure("internal", type(error).__name__), None, 1
    lane.results.append(result)
    if is_first and isinstance(result, Failure) and result.kind in CONFIG_FAILURES:
        lane.config_error = result
    sample = Sample(key_of(ask), result, reply, asked_at=asked_at, ended_at=clock.now(), calls=calls)
    await execution.keep.record(lane.run_id, sample)


async def _ask_and_grade(ask: Ask, execution: Execution) -> tuple[Grade | Failure, Reply | None, int]:
    lane = execution.lanes[ask.arm]
    calls, waited_s = 0, 0.0
    while True:
        calls += 1
        try:
            reply = await lane.provider.ask(ask)
        except ProviderError as error:
            wait = wait_s(
                error.kind,
                retry_after_s=error.retry_after_s,
                spent=Spent(calls, waited_s),
                policy=execution.retry,
                jitter=jitter_of(ask, calls),
            )
            if wait is None or execution.clock.now() + timedelta(seconds=wait) >= _end_of(ask):
                return Failure(error.kind, error.detail), None, calls
            await execution.clock.sleep(wait)
            waited_s += wait
        else:
            return failure_of(reply, lane.arm) or execution.grade(ask, reply.text), reply, calls


def _end_of(ask: Ask) -> datetime:
    return datetime.combine(ask.slot_date, time(), UTC) + timedelta(days=1)
