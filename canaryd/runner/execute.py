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
from canaryd.runner.budget import Spare, most_input, most_output
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
    """What an arm's calls have cost in a run by the budget's account, attempts that failed included."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, answer: Reply | ProviderError | None, *, most_input: int = 0, most_output: int = 0) -> None:
        """Count one call, None being one that brought neither; a reply that reports no tokens took the most there are.

        >>> usage = Usage()
        >>> usage.add(Reply("4", "stop", input_tokens=9), most_input=30, most_output=64)
        >>> usage.add(ProviderError("overloaded", "busy"), most_input=30, most_output=64)
        >>> usage
        Usage(calls=2, input_tokens=9, output_tokens=64)
        """
        self.calls += 1
        if isinstance(answer, Reply):
            self.input_tokens += most_input if answer.input_tokens is None else answer.input_tokens
            self.output_tokens += most_output if answer.output_tokens is None else answer.output_tokens
        elif answer is not None:
            self.input_tokens += answer.input_tokens or 0
            self.output_tokens += answer.output_tokens or 0


@dataclass(slots=True)
class Lane:
    """One arm while it is being asked: its provider, its run once it is claimed, what it cost and what stops it.

    `canary` is the grade of the trivial task before the first item, where it was asked; `is_measured` says whether
    anything of the slot was measured so far. Of the clock's monotonic seconds its run began at `began_s`, and from
    `stops_s` on no further request starts; `stopped` says why requests were left out, where any were. `spare` is what
    the budget leaves all arms together for calls that are made again, and `unpaid` why one was not.
    """

    arm: Arm
    provider: Provider
    run_id: int = 0
    usage: Usage = field(default_factory=Usage)
    results: list[Grade | Failure] = field(default_factory=list)
    canary: Grade | None = None
    is_measured: bool = False
    config_error: Failure | None = None
    began_s: float = 0.0
    stops_s: float = math.inf
    stopped: str | None = None
    next_start_s: float = 0.0
    spare: Spare = field(default_factory=Spare)
    unpaid: str | None = None

    def may_repeat(self) -> bool:
        """Use up a call beyond the planned ones; return whether the budget has one, and else say so in `unpaid`."""
        if self.spare.take():
            return True
        self.unpaid = f"the budget's {self.spare.limit}"
        return False


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

    The first ask of an arm goes ahead alone: when it shows that the request itself is refused (a wrong key, no such
    model) that arm ends after this one call, and so it does at a later one while nothing was measured. No request
    starts after 24:00 UTC of its slot, once the run lasted retry.longest_run_s, or once the process was told to end.

    Raises:
        CanarydError: the store refused a sample; nothing more is asked.
    """
    first = {ask.arm: ask for ask in reversed(asks)}
    for lane in execution.lanes.values():
        lane.stops_s = execution.clock.monotonic_s() + execution.retry.longest_run_s
    try:
        await _ask_all(list(first.values()), execution)
        await _ask_all([ask for ask in asks if ask is not first[ask.arm]], execution)
    except ExceptionGroup as group:
        raise _first_of(group) from None


async def _ask_all(asks: Sequence[Ask], execution: Execution) -> None:
    free = {name: asyncio.Semaphore(lane.arm.concurrency) for name, lane in execution.lanes.items()}
    async with asyncio.TaskGroup() as group:
        for ask in asks:
            if execution.lanes[ask.arm].config_error is None:
                await free[ask.arm].acquire()
                group.create_task(_sample(ask, execution, free=free[ask.arm]))


def _first_of(group: ExceptionGroup[Exception]) -> Exception:
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _sample(ask: Ask, execution: Execution, *, free: asyncio.Semaphore) -> None:
    """Bring one sample and store it; its place among the arm's calls is free before it is on disk."""
    try:
        sample = await _measured(ask, execution)
    finally:
        free.release()
    if sample is not None:
        await execution.keep.record(execution.lanes[ask.arm].run_id, sample)


async def _measured(ask: Ask, execution: Execution) -> Sample | None:
    lane, clock = execution.lanes[ask.arm], execution.clock
    if why := lane.stopped or await turn(ask, lane, clock=clock):
        lane.stopped = why
    if lane.stopped or lane.config_error:
        return None
    asked_at = clock.now()
    answer, calls = await answered(ask, lane, retry=execution.retry, clock=clock)
    reply = None if isinstance(answer, Failure) else answer
    result = answer if isinstance(answer, Failure) else await bounded(_graded(ask, answer, execution=execution))
    lane.results.append(result)
    if isinstance(result, Grade) or not result.is_harness:
        lane.is_measured = True
    elif result.kind in CONFIG_FAILURES and not lane.is_measured:
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


async def _graded(ask: Ask, reply: Reply, *, execution: Execution) -> Grade | Failure:
    failure = _replayed(reply, execution) or failure_of(reply, execution.lanes[ask.arm].arm)
    return failure or await execution.grade(ask, reply.text)


def _replayed(reply: Reply, execution: Execution) -> Failure | None:
    """Return the failure of a reply whose id came before: it was not made for this question."""
    response_id = reply.response_id
    if response_id is None:
        return None
    if response_id in execution.landed or execution.seen(response_id):
        return Failure("replayed", f"the response id {response_id[:40]} was seen before")
    execution.landed.add(response_id)
    return None


async def turn(ask: Ask, lane: Lane, *, clock: Clock) -> str | None:
    """Wait until the arm's rate allows a request, and return why none may start then, or None.

    Where none may start by then, nothing is waited for.
    """
    wait_s = max(lane.next_start_s - clock.monotonic_s(), 0.0)
    why = _why_stopped(ask, lane, clock=clock, in_s=wait_s)
    if why is None and lane.arm.requests_per_minute is not None:
        lane.next_start_s = clock.monotonic_s() + wait_s + 60.0 / lane.arm.requests_per_minute
        if wait_s > 0:
            await wait(wait_s, clock)
            why = _why_stopped(ask, lane, clock=clock)
    return why


async def answered(ask: Ask, lane: Lane, *, retry: Retry, clock: Clock) -> tuple[Reply | Failure, int]:
    """Return what one question brought, retried where nothing was measured, and how many calls it took.

    The first call is made at once; each further one waits for its turn, and is only made where the budget covers it.
    A fault of the harness is the failure `internal`.
    """
    most = {"most_input": most_input(ask), "most_output": most_output(lane.arm) or 0}
    unpaid = ""

    async def once() -> Reply:
        """Make one attempt."""
        answer: Reply | ProviderError | None = None
        try:
            brought = await bounded(call.get()(ask, lane.provider))
            if isinstance(brought, Failure):
                raise ProviderError(brought.kind, brought.detail)
            answer = brought
            return brought
        except ProviderError as error:
            answer = error
            raise
        finally:
            lane.usage.add(answer, **most)

    async def begins(in_s: float) -> bool:
        """Wait, and return whether a further attempt may begin."""
        nonlocal unpaid
        if _why_stopped(ask, lane, clock=clock, in_s=in_s) is not None:
            return False
        if not lane.may_repeat():
            unpaid = f"; not asked again: {lane.unpaid}"
            return False
        await wait(in_s, clock)
        return await turn(ask, lane, clock=clock) is None

    answer, calls = await retried(ask, once, policy=retry, clock=clock, begins=begins)
    if isinstance(answer, ProviderError):
        return Failure(answer.kind, f"{answer.detail}{unpaid}"), calls
    return answer, calls


def _why_stopped(ask: Ask, lane: Lane, *, clock: Clock, in_s: float = 0.0) -> str | None:
    """Return why no request may start in so many seconds, or None."""
    if is_told_to_end():
        return TOLD_TO_END
    end = datetime.combine(ask.slot_date, time(), UTC) + timedelta(days=1)
    if clock.now() + timedelta(seconds=in_s) >= end:
        return "the UTC day ended"
    return "the run lasted retry.longest_run_s" if clock.monotonic_s() + in_s >= lane.stops_s else None
