"""Every call of a child is reported with what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest

from canaryd.daemon.counting import counted_calls
from canaryd.providers.base import ProviderError
from canaryd.records import Ask, Reply
from canaryd.testing import ScriptedProvider

ASK = Ask("s", "tracked", date(2027, 1, 2), "i", 0, "", "What is 1 + 1?")


def test_calls_are_reported_with_what_became_of_them() -> None:
    events: list[Mapping[str, Any]] = []
    answers = [ProviderError("overloaded", "busy"), Reply("2", "stop")]
    provider = ScriptedProvider(lambda _ask, times: answers[times])

    async def ask_twice() -> Reply:
        call = counted_calls(events.append)
        with pytest.raises(ProviderError):
            await call(ASK, provider)
        return await call(ASK, provider)

    assert asyncio.run(ask_twice()).text == "2"
    told = [(event["event"], event["arm"], event["retry"], event["failure"]) for event in events]
    assert told == [("call", "tracked", False, "overloaded"), ("call", "tracked", True, None)]
    assert all(event["seconds"] >= 0 for event in events)
