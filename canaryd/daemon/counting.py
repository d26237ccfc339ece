"""Every provider call of a child is reported to its parent, which counts them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from canaryd.providers.base import Provider, ProviderError
from canaryd.records import Ask, Reply
from canaryd.runner.calls import Call, directly


def counted_calls(report: Callable[[Mapping[str, Any]], None], *, through: Call = directly) -> Call:
    """Return how to call a provider so that each call is reported: arm, failure, seconds, whether it repeats one."""
    asked: set[Ask] = set()

    async def call(ask: Ask, provider: Provider) -> Reply:
        """Ask the provider, and report how it went."""
        began_s, kind = time.monotonic(), None
        is_retry = ask in asked
        asked.add(ask)
        try:
            return await through(ask, provider)
        except ProviderError as error:
            kind = error.kind
            raise
        finally:
            took_s = round(time.monotonic() - began_s, 4)
            report({"event": "call", "arm": ask.arm, "retry": is_retry, "failure": kind, "seconds": took_s})

    return call
