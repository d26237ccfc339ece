"""When a call is made again: only where nothing was measured, within bounds of calls and of waiting."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from canaryd.config import Retry
from canaryd.records import TRANSPORT_FAILURES, Ask


@dataclass(frozen=True, slots=True)
class Spent:
    """What one sample has cost so far: provider calls, and seconds waited between them."""

    calls: int
    waited_s: float


def wait_s(kind: str, *, retry_after_s: float | None, spent: Spent, policy: Retry, jitter: float) -> float | None:
    """Return the seconds to wait before the next call, or None when the failure stands.

    The wait is first_wait_s * 2**(calls - 1), at most longest_wait_s, times a jitter between 0.5 and 1; a provider's
    Retry-After is honoured as it is. The failure stands when it is not one of transport, when the calls are used up, or
    when the wait would exceed total_wait_s.

    >>> wait_s("overloaded", retry_after_s=None, spent=Spent(2, 1.0), policy=Retry(), jitter=1.0)
    4.0
    >>> wait_s("rate_limited", retry_after_s=7, spent=Spent(1, 0.0), policy=Retry(), jitter=0.0)
    7
    >>> wait_s("refusal", retry_after_s=None, spent=Spent(1, 0.0), policy=Retry(), jitter=1.0) is None
    True
    """
    if kind not in TRANSPORT_FAILURES or spent.calls >= policy.calls:
        return None
    backoff = min(policy.first_wait_s * 2 ** (spent.calls - 1), policy.longest_wait_s) * (0.5 + jitter / 2)
    wait = backoff if retry_after_s is None else retry_after_s
    return wait if spent.waited_s + wait <= policy.total_wait_s else None


def jitter_of(ask: Ask, calls: int) -> float:
    """Return the jitter of a call's wait in [0, 1), the same on every machine."""
    key = f"{ask.arm}|{ask.slot_date.isoformat()}|{ask.item_id}|{ask.replicate}|{calls}"
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4]) / 2**32
