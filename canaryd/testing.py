"""Stand-ins that ship with canaryd, for its own tests and for those of whoever writes a provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from canaryd.providers.base import ProviderError, WireRequest
from canaryd.records import Ask, GraderSpec, Item, Reply


class FakeClock:
    """A clock that moves only when it is slept on or told to; `slept` lists the waits in seconds."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment
        self.slept: list[float] = []

    def now(self) -> datetime:
        """Return the aware UTC time."""
        return self.moment

    def monotonic_s(self) -> float:
        """Return seconds that never step back."""
        return self.moment.timestamp()

    async def sleep(self, seconds: float) -> None:
        """Move on at once."""
        self.slept.append(seconds)
        self.moment += timedelta(seconds=seconds)


class ScriptedProvider:
    """A provider that answers by a function of the ask and of how often it was asked; `asked` lists every call.

    The function returns a Reply, or a ProviderError to raise.
    """

    def __init__(self, answer: Callable[[Ask, int], Reply | ProviderError]) -> None:
        self._answer = answer
        self.asked: list[Ask] = []

    async def ask(self, ask: Ask) -> Reply:
        """Return the scripted reply, or raise the scripted error."""
        times = sum(earlier == ask for earlier in self.asked)
        self.asked.append(ask)
        answer = self._answer(ask, times)
        if isinstance(answer, ProviderError):
            raise answer
        return answer

    def wire_request(self, ask: Ask) -> WireRequest:
        """Return a request that shows what would be sent."""
        return WireRequest("POST", "/scripted", {"prompt": ask.prompt, "system": ask.system})

    def tool_versions(self) -> Mapping[str, str]:
        """Return no tools."""
        return {}

    async def aclose(self) -> None:
        """Close nothing."""


def number_items(count: int, *, family: str = "sums") -> tuple[Item, ...]:
    """Return `count` items whose right answers are the numbers from 0."""
    return tuple(
        Item(f"{family}-{n}", family, f"{family}-{n}", f"What is {n} + 0?", str(n), GraderSpec("exact"))
        for n in range(count)
    )
