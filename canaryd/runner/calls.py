"""Where every call to a provider passes, so that a process may watch its calls, or let no further one begin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeAlias

from canaryd.config import Retry
from canaryd.errors import EXIT_INTERRUPTED, CanarydError
from canaryd.providers.base import Provider, ProviderError
from canaryd.records import Ask, Reply
from canaryd.runner.clock import SUSPENDED_S, Clock, suspended_s
from canaryd.runner.retry import Spent, jitter_of, wait_s

Call: TypeAlias = Callable[[Ask, Provider], Awaitable[Reply]]
#: Why requests were left out once the process was told to end.
TOLD_TO_END = "the process was told to end"


class Drained(CanarydError):
    """The process was told to end; what landed is stored, and the slot stays open."""

    exit_code = EXIT_INTERRUPTED


class Drain:
    """Whether this process was told to end: then no further call begins, and no wait for one goes on.

    What is in flight lands, is graded and is stored.
    """

    def __init__(self) -> None:
        self.is_told = False
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def tell(self) -> None:
        """Let no further call begin; safe to call from a signal handler."""
        self.is_told = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._told.set)

    async def wait(self, seconds: float, clock: Clock) -> None:
        """Wait, or until the process is told to end."""
        self._loop = asyncio.get_running_loop()
        waits = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(self._told.wait())]
        try:
            if not self.is_told:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()


async def directly(ask: Ask, provider: Provider, *, suspended: Callable[[], float] = suspended_s) -> Reply:
    """Ask the provider; what comes back from beyond a suspend of this machine, whatever it is, is no measurement.

    Raises:
        ProviderError: there is no reply, or the machine was suspended meanwhile (`timeout`).
    """
    before_s = suspended()
    brought = await _brought(ask, provider)
    slept_s = suspended() - before_s
    if slept_s > SUSPENDED_S:
        raise ProviderError(
            "timeout",
            f"this machine was suspended for {slept_s:.0f} s while the call was in flight",
            input_tokens=brought.input_tokens,
            output_tokens=brought.output_tokens,
        )
    if isinstance(brought, ProviderError):
        raise brought
    return brought


async def _brought(ask: Ask, provider: Provider) -> Reply | ProviderError:
    try:
        return await provider.ask(ask)
    except ProviderError as error:
        return error


#: How this context calls a provider; the resident process' child counts its calls here.
call: ContextVar[Call] = ContextVar("call", default=directly)
#: How this context is told to end; None where a signal ends it at once.
drain: ContextVar[Drain | None] = ContextVar("drain", default=None)


def is_told_to_end() -> bool:
    """Return whether no further call may begin in this context."""
    told = drain.get()
    return told is not None and told.is_told


async def wait(seconds: float, clock: Clock) -> bool:
    """Wait for the next call, unless the process is told to end; return whether it may begin."""
    told = drain.get()
    await (clock.sleep(seconds) if told is None else told.wait(seconds, clock))
    return not is_told_to_end()


async def retried(
    ask: Ask,
    once: Callable[[], Awaitable[Reply]],
    *,
    policy: Retry,
    clock: Clock,
    begins: Callable[[float], Awaitable[bool]] | None = None,
) -> tuple[Reply | ProviderError, int]:
    """Return what one question brought, asked again where nothing was measured, and how many calls it took.

    `once` makes one call; `begins` waits at least so many seconds and says whether the next one may begin then, which
    without it is so unless the process is told to end. The error is that of the last call.
    """
    calls, waited_s = 0, 0.0
    while True:
        calls += 1
        try:
            return await once(), calls
        except ProviderError as error:
            spent = Spent(calls, waited_s)
            jitter = jitter_of(ask, calls)
            rest_s = wait_s(error.kind, retry_after_s=error.retry_after_s, spent=spent, policy=policy, jitter=jitter)
            if rest_s is None or not await (wait(rest_s, clock) if begins is None else begins(rest_s)):
                return error, calls
            waited_s += rest_s
