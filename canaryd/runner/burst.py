"""A burst of sentinel samples before day 1, so that sentinels watch from the first slot on."""

from __future__ import annotations

import asyncio
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from canaryd import prereg
from canaryd.errors import MeasurementRefused, UsageError
from canaryd.prereg import Prereg
from canaryd.records import Ask, Failure, Grade, Item, Sample
from canaryd.runner.execute import Execution, execute
from canaryd.runner.grading import Grading
from canaryd.runner.plan import plan_asks
from canaryd.runner.slot import Slot
from canaryd.runner.spending import budget_problem
from canaryd.store import read, sentinels
from canaryd.store.harness import Spending
from canaryd.store.sentinels import Burst


class _InMemory:
    """Keeps the scores of a burst until all of them are there."""

    def __init__(self) -> None:
        self.scores: dict[str, list[float]] = defaultdict(list)
        self.failures: list[Failure] = []

    async def record(self, run_id: int, sample: Sample) -> None:  # noqa: ARG002 - a burst belongs to no run
        """Keep one sample."""
        if isinstance(sample.result, Grade):
            self.scores[sample.key.item_id].append(sample.result.score)
        else:
            self.failures.append(sample.result)


def take_burst(slot: Slot, *, samples: int) -> tuple[Burst, ...]:
    """Ask every sentinel of the tracked arm `samples` times, store the sums of the scores and return them.

    Raises:
        UsageError: the series has begun, has its burst already, or has no sentinel.
        MeasurementRefused: the budget does not cover the burst (nothing is asked), a sample failed (nothing is stored),
            or with this burst a sentinel could never move.
    """
    items = [replace(item, replicates=samples) for item in slot.panel.items if item.sentinel]
    _require_fresh(slot, items)
    asks = plan_asks(
        items,
        arms=[slot.config.tracked.name],
        series=slot.series.name,
        slot_date=slot.slot_date,
        seed=slot.series.seed,
        system=slot.panel.system,
    )
    if problem := budget_problem(slot, asks, canaries=0):
        raise MeasurementRefused(f"the burst was not taken: {problem}; raise the limit or wait", reason="budget")
    kept = asyncio.run(_ask(slot, asks, items=items))
    if kept.failures:
        kinds = sorted({failure.kind for failure in kept.failures})
        raise MeasurementRefused(
            f"{len(kept.failures)} of {samples * len(items)} samples of the burst failed ({', '.join(kinds)}); nothing "
            "was stored, run the same command again",
            reason="burst_failed",
        )
    at = slot.clock.now()
    taken = tuple(
        Burst(slot.series.name, item, len(scores), math.fsum(scores), math.fsum(s * s for s in scores), at)
        for item, scores in sorted(kept.scores.items())
    )
    _require_reach(slot, taken)
    sentinels.add_bursts(slot.store, taken)
    return taken


async def _ask(slot: Slot, asks: Sequence[Ask], *, items: list[Item]) -> _InMemory:
    tracked = slot.config.tracked.name
    lanes, kept = slot.lanes([tracked]), _InMemory()
    grading = Grading({item.item_id: item for item in items}, slot.backend, rng=random.SystemRandom())
    try:
        await execute(asks, Execution(lanes, grading.grade, kept, slot.retry, slot.clock))
    finally:
        spent = lanes[tracked].usage
        charge = Spending(spent.calls, spent.input_tokens, spent.output_tokens)
        sentinels.charge_burst(slot.store, slot.series.name, arm=tracked, slot_date=slot.slot_date, spending=charge)
        await lanes[tracked].provider.aclose()
    return kept


def _require_fresh(slot: Slot, items: list[Item]) -> None:
    name = slot.series.name
    if not items:
        raise UsageError(f"the panel of series {name!r} has no sentinel")
    if slot.slot_date >= slot.series.start_date:
        raise UsageError(f"series {name!r} began on {slot.series.start_date}; a burst is taken before day 1")
    with slot.store.read() as connection:
        if sentinels.bursts(connection, name):
            raise UsageError(f"series {name!r} has its burst already; a baseline is taken once")


def _require_reach(slot: Slot, taken: tuple[Burst, ...]) -> None:
    from canaryd.stats.sentinel import SentinelBaseline, sentinel_reach

    protocol, replicates = _protocol(slot), {item.item_id: item.replicates for item in slot.panel.items}
    alpha = protocol.sentinels.alpha(len(taken))
    for burst in taken:
        baseline = SentinelBaseline(burst.n, burst.total, burst.total_sq)
        reach = sentinel_reach(baseline, replicates[burst.item_id], alpha=alpha)
        if not reach.can_move:
            raise MeasurementRefused(
                f"sentinel {burst.item_id!r} could never move with a baseline of {burst.n} and "
                f"{replicates[burst.item_id]} replicates a run (smallest tail {reach.tail:.2g}, level {alpha:.2g}); "
                f"take at least {reach.needed_baseline or 'impossibly many'} samples, or write another sentinel",
                reason="sentinel_cannot_move",
            )


def _protocol(slot: Slot) -> Prereg:
    with slot.store.read() as connection:
        content = read.registration(connection, slot.series.name)
    return prereg.parse(content, source=f"registration of {slot.series.name}")
