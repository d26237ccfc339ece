"""Asking: the planned asks of a slot, all arms interleaved, each answer graded and stored as it lands."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Protocol, TypeVar

from canaryd.config import Retry
from canaryd.errors import CanarydError
from canaryd.providers.base import Provider, ProviderError
from canaryd.records import CONFIG_FAILURES, Arm, Ask, Failure, Grade, Reply, Sample
from canaryd.runner.calls import TOLD_TO_END, call, is_told_to_end, retried, wait
from canaryd.runner.clock import Clock
from canaryd.runner.plan import key_of
from canaryd.runner.validity import failure_of

_Brought = TypeVar("_Brought")
GradeReply = Callable[[Ask, str], Awaitable[Grade | Failure]]


class Keep(Protocol):
    """Stores one sample of a run and returns when it is durable."""

    async def record(self, run_id: int, sample: Sample) -> None:
        """Store one sample of a run."""


@dataclass(slots=True)
class Usage:
    """What an arm's calls have cost in a run, attempts that failed included; an unreported count adds nothing."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, answer: Reply | ProviderError) -> None:
        """Count one call."""
        self.calls += 1
        self.input_tokens += answer.input_tokens or 0
        self.output_tokens += answer.output_tokens or 0


@dataclass(slots=True)
class Lane:
    """One arm while it is being asked: its provider, its run once it is claimed, what it cost and what stops it.

    `canary` is the grade of the trivial task before the first item, where it was asked. At `stops_s` of the clock's
    monotonic seconds no further request starts; `stopped` says why requests were left out, where any were.
    """

    arm: Arm
    provider: Provider
    run_id: int = 0
    usage: Usage = field(default_factory=Usage)
    results: list[Grade | Failure] = field(default_factory=list)
    canary: Grade | None = None
    config_error: Failure | None = None
    stops_s: float = math.inf
    stopped: str | None = None
    next_start_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Execution:
    """What every ask of a slot shares; `seen` says whether a response id was already stored for the series."""

    lanes: Mapping[str, Lane]
    grade: GradeReply
    keep: Keep
    retry: Retry
    clock: Clock
    seen: Callable[[str], bool] = lambda _: False
    landed: set[str] = field(default_factory=set)


async def execute(asks: Sequence[Ask], execution: Execution) -> None:
    """Ask every ask once, in order, each arm within its own concurrency and rate; results land in the lanes.

    Where no trivial task was answered before, the first ask of an arm goes ahead alone: when it shows that the request
    itself is refused (a wrong key, no such model) that arm ends after this one call. No request starts after 24:00 UTC
    of its slot, once the run has lasted retry.longest_run_s, or once the process was told to end.

    Raises:
        CanarydError: the store refused a sample; nothing more is asked.
    """
    first = {ask.arm: ask for ask in reversed(asks) if execution.lanes[ask.arm].canary is None}
    for lane in execution.lanes.values():
        lane.stops_s = execution.clock.monotonic_s() + execution.retry.longest_run_s
    try:
        await _ask_all(list(first.values()), execution, are_first=True)
        rest = [ask for ask in asks if ask is not first.get(ask.arm) and not execution.lanes[ask.arm].config_error]
        await _ask_all(rest, execution, are_first=False)
    except ExceptionGroup as group:
        raise _first_of(group) from None


async def _ask_all(asks: Sequence[Ask], execution: Execution, *, are_first: bool) -> None:
    free = {name: asyncio.Semaphore(lane.arm.concurrency) for name, lane in execution.lanes.items()}
    async with asyncio.TaskGroup() as group:
        for ask in asks:
            await free[ask.arm].acquire()
            await _wait_for_turn(ask, execution.lanes[ask.arm], clock=execution.clock)
            group.create_task(_sample(ask, execution, free=free[ask.arm], is_first=are_first))


def _first_of(group: ExceptionGroup[Exception]) -> Exception:
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _wait_for_turn(ask: Ask, lane: Lane, *, clock: Clock) -> None:
    """Wait until the arm's rate allows a request; where none may start by then, mark the lane as stopped."""
    if lane.arm.requests_per_minute is None or lane.stopped:
        return
    wait_s = lane.next_start_s - clock.monotonic_s()
    lane.stopped = _why_stopped(ask, lane, clock=clock, in_s=max(wait_s, 0.0))
    if lane.stopped:
        return
    if wait_s > 0:
        await wait(wait_s, clock)
    lane.next_start_s = clock.monotonic_s() + 60.0 / lane.arm.requests_per_minute


async def _sample(ask: Ask, execution: Execution, *, free: asyncio.Semaphore, is_first: bool) -> None:
    """Bring one sample and store it; its place among the arm's calls is free before it is on disk."""
    try:
        sample = await _measured(ask, execution, is_first=is_first)
    finally:
        free.release()
    if sample is not None:
        await execution.keep.record(execution.lanes[ask.arm].run_id, sample)


async def _measured(ask: Ask, execution: Execution, *, is_first: bool) -> Sample | None:
    lane, clock = execution.lanes[ask.arm], execution.clock
    lane.stopped = lane.stopped or _why_stopped(ask, lane, clock=clock)
    if lane.stopped:
        return None
    asked_at = clock.now()
    brought = await bounded(_ask_and_grade(ask, execution))
    result, reply, calls = (brought, None, 1) if isinstance(brought, Failure) else brought
    lane.results.append(result)
    if is_first and isinstance(result, Failure) and result.kind in CONFIG_FAILURES:
        lane.config_error = result
    return Sample(key_of(ask), result, reply, asked_at=asked_at, ended_at=clock.now(), calls=calls)


async def bounded(work: Awaitable[_Brought]) -> _Brought | Failure:
    """Return what the work on one question of one arm brought, or the failure `internal`.

    Raises:
        CanarydError: an expected failure, which is not the question's.
    """
    try:
        return await work
    except CanarydError:
        raise
    except Exception as error:  # the boundary of a question: a fault of the harness is a failure, not a wrong answer
        return Failure("internal", type(error).__name__)


async def _ask_and_grade(ask: Ask, execution: Execution) -> tuple[Grade | Failure, Reply | None, int]:
    lane = execution.lanes[ask.arm]
    answer, calls = await answered(ask, lane, retry=execution.retry, clock=execution.clock)
    if isinstance(answer, Failure):
        return answer, None, calls
    failure = _replayed(answer, execution) or failure_of(answer, lane.arm)
    return failure or await execution.grade(ask, answer.text), answer, calls


def _replayed(reply: Reply, execution: Execution) -> Failure | None:
    """Return the failure of a reply whose id came before: it was not made for this question."""
    response_id = reply.response_id
    if response_id is None:
        return None
    if response_id in execution.landed or execution.seen(response_id):
        return Failure("replayed", f"the response id {response_id[:40]} was seen before")
    execution.landed.add(response_id)
    return None


async def answered(ask: Ask, lane: Lane, *, retry: Retry, clock: Clock) -> tuple[Reply | Failure, int]:
    """Return what one question brought, retried where nothing was measured, and how many calls it took."""

    async def once() -> Reply:
        """Make one attempt."""
        try:
            reply = await call.get()(ask, lane.provider)
        except ProviderError as error:
            lane.usage.add(error)
            raise
        lane.usage.add(reply)
        return reply

    def stops(in_s: float) -> bool:
        """Return whether no further attempt may begin after so long a wait."""
        return _why_stopped(ask, lane, clock=clock, in_s=in_s) is not None

    answer, calls = await retried(ask, once, policy=retry, clock=clock, stops=stops)
    return (Failure(answer.kind, answer.detail) if isinstance(answer, ProviderError) else answer), calls


def _why_stopped(ask: Ask, lane: Lane, *, clock: Clock, in_s: float = 0.0) -> str | None:
    """Return why no request may start in so many seconds, or None."""
    if is_told_to_end():
        return TOLD_TO_END
    end = datetime.combine(ask.slot_date, time(), UTC) + timedelta(days=1)
    if clock.now() + timedelta(seconds=in_s) >= end:
        return "the UTC day ended"
    return "the run lasted retry.longest_run_s" if clock.monotonic_s() + in_s >= lane.stops_s else None
