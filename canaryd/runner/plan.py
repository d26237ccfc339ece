"""Which asks a slot needs, in which order: item by item in a seeded order, the arms of an item side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from datetime import date

from canaryd.records import Ask, Item, SampleKey


def plan_asks(
    items: Sequence[Item],
    *,
    arms: Sequence[str],
    series: str,
    slot_date: date,
    seed: int,
    system: str,
) -> tuple[Ask, ...]:
    """Return every ask of a slot: len(items) x replicates x len(arms), in the order in which they are sent.

    Items are ordered by SHA-256 of (seed, date, item, replicate), so that no item is always asked at the same minute,
    and the arms of one item stand side by side in rotating order, so that an incident of the platform hits all of them.

    >>> from canaryd.records import GraderSpec
    >>> item = Item("a", "f", "a", "1+1?", "2", GraderSpec("exact"))
    >>> asks = plan_asks([item], arms=["t", "c"], series="s", slot_date=date(2027, 1, 1), seed=1, system="")
    >>> sorted(ask.arm for ask in asks)
    ['c', 't']
    """
    keyed = []
    for item in items:
        for replicate in range(item.replicates):
            key = hashlib.sha256(f"{seed}|{slot_date.isoformat()}|{item.item_id}|{replicate}".encode()).digest()
            keyed.append((key, item, replicate))
    keyed.sort(key=lambda entry: entry[0])
    asks = []
    for key, item, replicate in keyed:
        turn = key[-1] % len(arms)
        rotated = [*arms[turn:], *arms[:turn]]
        asks += [Ask(series, arm, slot_date, item.item_id, replicate, system, item.prompt) for arm in rotated]
    return tuple(asks)


def key_of(ask: Ask) -> SampleKey:
    """Return the identity of the sample that an ask makes."""
    return SampleKey(ask.series, ask.arm, ask.slot_date, ask.item_id, ask.replicate)


def without(asks: Sequence[Ask], final: Collection[SampleKey]) -> tuple[Ask, ...]:
    """Return the asks whose sample is not final yet."""
    return tuple(ask for ask in asks if key_of(ask) not in final)
