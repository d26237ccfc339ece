"""The gate that every provider call of a child goes through: it reports each, and closes when the child must end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from canaryd.errors import EXIT_INTERRUPTED, CanarydError
from canaryd.providers.base import Provider, ProviderError
from canaryd.records import Ask, Reply

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
