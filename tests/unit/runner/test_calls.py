"""A call during which the machine was suspended measured nothing, whatever came back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import canaryd
from canaryd.config import Retry
from canaryd.daemon.counting import counted_calls
from canaryd.providers.base import ProviderError
from canaryd.records import Ask, Reply
from canaryd.runner.calls import directly, retried
from canaryd.runner.clock import suspended_s
from canaryd.testing import FakeClock, ScriptedProvider

ASK = Ask("s", "tracked", date(2027, 1, 2), "i", 0, "", "What is 1 + 1?")
WRONG = Reply("3", "stop", input_tokens=7, output_tokens=5)


def readings(*seconds: float) -> Callable[[], float]:
    """Return a clock that shows how long the machine was suspended so far, reading by reading."""
    each = iter(seconds)
    return lambda: next(each)


@pytest.mark.parametrize("brought", [WRONG, ProviderError("auth", "the session is over", input_tokens=7)])
def test_what_comes_back_from_beyond_a_suspend_is_a_timeout(brought: Reply | ProviderError) -> None:
    provider = ScriptedProvider(lambda _ask, _times: brought)
    with pytest.raises(ProviderError, match="suspended for 3600 s") as raised:
        asyncio.run(directly(ASK, provider, suspended=readings(90.0, 3690.0)))
    assert (raised.value.kind, raised.value.input_tokens) == ("timeout", 7), "what it cost counts all the same"
    assert raised.value.output_tokens == brought.output_tokens


def test_a_machine_that_stayed_awake_or_dozed_gives_what_came_back() -> None:
    awake = directly(ASK, ScriptedProvider(lambda _ask, _times: WRONG), suspended=readings(90.0, 95.0))
    assert asyncio.run(awake) == WRONG
    refused = ProviderError("auth", "no")
    with pytest.raises(ProviderError, match="auth: no"):
        asyncio.run(directly(ASK, ScriptedProvider(lambda _ask, _times: refused), suspended=readings(0.0, 0.0)))


def test_it_is_counted_as_a_timeout_and_asked_again() -> None:
    events: list[Mapping[str, Any]] = []
    provider = ScriptedProvider(lambda _ask, times: Reply(str(times + 1), "stop"))
    call = counted_calls(events.append, through=partial(directly, suspended=readings(0.0, 60.0, 60.0, 60.0)))
    clock = FakeClock(datetime(2027, 1, 2, 3, 10, tzinfo=UTC))
    answer, calls = asyncio.run(retried(ASK, lambda: call(ASK, provider), policy=Retry(), clock=clock))
    assert isinstance(answer, Reply)
    assert (answer.text, calls) == ("2", 2)
    assert [event["failure"] for event in events] == ["timeout", None]


def test_this_machine_says_how_long_it_was_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    assert suspended_s() > -1.0
    monkeypatch.delattr("time.CLOCK_BOOTTIME")
    assert suspended_s() == 0.0


def test_no_provider_is_asked_elsewhere() -> None:
    root = Path(canaryd.__file__).parent
    asking = {str(path.relative_to(root)) for path in root.rglob("*.py") if re.search(r"\.ask\(", path.read_text())}
    assert asking == {"runner/calls.py", "providers/discreet.py"}
