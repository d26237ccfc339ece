"""Where every call to a provider passes, so that a process may watch its calls, or let no further one begin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeAlias

from canaryd.providers.base import Provider
from canaryd.records import Ask, Reply

Call: TypeAlias = Callable[[Ask, Provider], Awaitable[Reply]]


async def directly(ask: Ask, provider: Provider) -> Reply:
    """Ask the provider, and nothing else."""
    return await provider.ask(ask)


#: How this context calls a provider; the resident process' child puts its gate here.
call: ContextVar[Call] = ContextVar("call", default=directly)
