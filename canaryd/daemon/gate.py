"""The gate that every provider call of a child goes through: it reports each call, and closes when the child must end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from canaryd.errors import EXIT_INTERRUPTED, CanarydError
from canaryd.providers.base import Provider, ProviderError, WireRequest
from canaryd.records import Arm, Ask, Reply

#: How long an answer that landed last may take to reach the disk before the run is given up.
_LANDING_S = 0.5


class Drained(CanarydError):
    """The process was told to end; what landed is stored, and the slot stays open."""

    exit_code = EXIT_INTERRUPTED


class Gate:
    """Counts the calls in flight; once closed, no further one begins."""

    def __init__(self, report: Callable[[Mapping[str, Any]], None]) -> None:
        self._report = report
        self._is_closed = False
        self._in_flight = 0
        self._asked: set[Ask] = set()

    def close(self) -> None:
        """Let no further call begin; safe to call from a signal handler."""
        self._is_closed = True

    def watch(self, arm: Arm, provider: Provider) -> Provider:
        """Return the provider of an arm behind this gate."""
        return _Gated(self, arm, provider=provider)

    async def pass_through(self, ask: Ask, provider: Provider) -> Reply:
        """Ask through the gate.

        Raises:
            Drained: the gate is closed and nothing is in flight any more.
        """
        if self._is_closed:
            await self._until_quiet()
            raise Drained("the process was told to end; the slot stays open and goes on when canaryd runs again")
        began_s, kind = time.monotonic(), None
        is_retry = ask in self._asked
        self._asked.add(ask)
        self._in_flight += 1
        try:
            return await provider.ask(ask)
        except ProviderError as error:
            kind = error.kind
            raise
        finally:
            self._in_flight -= 1
            took_s = round(time.monotonic() - began_s, 4)
            self._report({"event": "call", "arm": ask.arm, "retry": is_retry, "failure": kind, "seconds": took_s})

    async def _until_quiet(self) -> None:
        while self._in_flight:
            await asyncio.sleep(0.05)
        await asyncio.sleep(_LANDING_S)


class _Gated:
    """One arm's provider behind the gate."""

    def __init__(self, gate: Gate, arm: Arm, *, provider: Provider) -> None:
        self._gate = gate
        self._arm = arm
        self._provider = provider

    async def ask(self, ask: Ask) -> Reply:
        """Ask through the gate."""
        return await self._gate.pass_through(ask, self._provider)

    def wire_request(self, ask: Ask) -> WireRequest:
        """Return the provider's wire request."""
        return self._provider.wire_request(ask)

    def tool_versions(self) -> Mapping[str, str]:
        """Return the provider's tools."""
        return self._provider.tool_versions()

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()
