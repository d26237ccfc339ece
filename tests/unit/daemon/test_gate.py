"""The gate: every call is reported, and a closed gate lets those in flight end before it gives the run up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest

from canaryd.daemon.gate import Drained, Gate
from canaryd.providers.base import ProviderError
from canaryd.records import Ask, Reply
from canaryd.testing import ScriptedProvider

ASK = Ask("s", "tracked", date(2027, 1, 2), "i", 0, "", "What is 1 + 1?")


def test_calls_are_reported_with_what_became_of_them() -> None:
    events: list[Mapping[str, Any]] = []
    answers = [ProviderError("overloaded", "busy"), Reply("2", "stop")]
    provider = ScriptedProvider(lambda _ask, times: answers[times])

    async def ask_twice() -> Reply:
        gate = Gate(events.append)
        with pytest.raises(ProviderError):
            await gate.pass_through(ASK, provider)
        return await gate.pass_through(ASK, provider)

    assert asyncio.run(ask_twice()).text == "2"
    told = [(event["event"], event["arm"], event["retry"], event["failure"]) for event in events]
    assert told == [("call", "tracked", False, "overloaded"), ("call", "tracked", True, None)]
    assert all(event["seconds"] >= 0 for event in events)


class Slow:
    """A provider whose reply is let go by a test."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def ask(self, ask: Ask) -> Reply:
        await self.release.wait()
        return Reply("2", "stop")


def test_a_closed_gate_waits_for_what_is_in_flight() -> None:
    async def story() -> list[str]:
        gate, slow, order = Gate(lambda _: None), Slow(), []

        async def in_flight() -> None:
            await gate.pass_through(ASK, slow)  # type: ignore[arg-type]
            order.append("landed")

        async def too_late() -> None:
            with pytest.raises(Drained):
                await gate.pass_through(ASK, slow)  # type: ignore[arg-type]
            order.append("refused")

        first = asyncio.create_task(in_flight())
        await asyncio.sleep(0)
        gate.close()
        second = asyncio.create_task(too_late())
        await asyncio.sleep(0)
        slow.release.set()
        await asyncio.gather(first, second)
        return order

    assert asyncio.run(story()) == ["landed", "refused"]
