"""A burst of sentinel samples before day 1, so that sentinels watch from the first slot on."""

from __future__ import annotations

import asyncio
import math
import random
from collections import defaultdict
from dataclasses import replace

from canaryd import prereg
from canaryd.errors import ConfigError, CredentialsError, MeasurementRefused, UsageError
from canaryd.fingerprint import Fingerprint
from canaryd.prereg import Prereg
from canaryd.records import Failure, Grade, Item, Sample
from canaryd.runner.execute import Execution, Lane, execute
from canaryd.runner.grading import Grading
from canaryd.runner.plan import plan_asks
from canaryd.runner.preflight import REASONS, Preflight, open_lanes, preflight
from canaryd.runner.project import held, keep_lease
from canaryd.runner.slot import Slot
from canaryd.store import read, sentinels
from canaryd.store.harness import Spending, keep_fingerprint
from canaryd.store.lease import Lease
from canaryd.store.sentinels import Burst, BurstNote


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

    Everything that is checked before the first item of a run is checked first, and the harness is noted: it is the one
    that day 1 is held to.

    Raises:
        UsageError: the series has begun, has its burst already, or has no sentinel.
        MeasurementRefused: a check failed (nothing is asked), a sample failed or was left out (nothing is stored), or
            with this burst a sentinel could never move.
        ConfigError, CredentialsError: the tracked arm, or a judge, cannot be asked as configured.
        Locked: another living process holds the series.
    """
    items = [replace(item, replicates=samples) for item in slot.panel.items if item.sentinel]
    with held(slot.store, slot.series.name, clock=slot.clock) as lease:
        _require_fresh(slot, items)
        kept, harness = asyncio.run(_asked(slot, items, lease=lease))
        _require_whole(kept, planned=samples * len(items))
        at = slot.clock.now()
        taken = tuple(
            Burst(slot.series.name, item, len(scores), math.fsum(scores), math.fsum(s * s for s in scores), at)
            for item, scores in sorted(kept.scores.items())
        )
        _require_reach(slot, taken)
        keep_fingerprint(slot.store, harness.digest, components=harness.components)
        by_arm = {slot.config.tracked.name: harness.digest}
        note = BurstNote(slot.series.name, slot.slot_date, samples, by_arm, at)
        sentinels.add_bursts(slot.store, taken, note=note, lease=lease)
    return taken


async def _asked(slot: Slot, items: list[Item], *, lease: Lease) -> tuple[_InMemory, Fingerprint]:
    """Return what the tracked arm answered, and its harness; what that used up is stored whatever came of it."""
    tracked, kept = slot.config.tracked.name, _InMemory()
    asks = plan_asks(
        items,
        arms=[tracked],
        series=slot.series.name,
        slot_date=slot.slot_date,
        seed=slot.series.seed,
        system=slot.panel.system,
    )
    grading = Grading({item.item_id: item for item in items}, slot.backend, rng=random.SystemRandom())
    heartbeat = asyncio.create_task(keep_lease(slot.store, lease, clock=slot.clock))
    try:
        async with open_lanes(slot, [tracked]) as (lanes, unasked):
            try:
                checked = await preflight(slot, lanes, asks=asks)
                checked.findings += unasked
                _require_fit(checked, tracked)
                await execute(asks, Execution(lanes, grading.grade, kept, slot.retry, slot.clock))
            finally:
                for lane in lanes.values():
                    _charge(slot, lane, lease=lease)
        return kept, checked.fingerprints[tracked]
    finally:
        heartbeat.cancel()


def _charge(slot: Slot, lane: Lane, *, lease: Lease) -> None:
    spent = Spending(lane.usage.calls, lane.usage.input_tokens, lane.usage.output_tokens)
    if spent.calls:
        name, arm = slot.series.name, lane.arm.name
        sentinels.charge_burst(slot.store, spent, series=name, arm=arm, slot_date=slot.slot_date, lease=lease)


def _require_fit(checked: Preflight, arm: str) -> None:
    found = checked.problem_of(arm)
    if found is None:
        return
    said = f"the burst was not taken: {found.reason}; {found.cure}"
    if found.check == "key":
        raise CredentialsError(said)
    raise ConfigError(said) if found.check == "arm" else MeasurementRefused(said, reason=REASONS[found.check])


def _require_whole(kept: _InMemory, *, planned: int) -> None:
    missing = planned - sum(map(len, kept.scores.values()))
    if missing:
        kinds = sorted({failure.kind for failure in kept.failures}) or ["not asked any more"]
        raise MeasurementRefused(
            f"{missing} of {planned} samples of the burst failed ({', '.join(kinds)}); nothing was stored, run the "
            "same command again",
            reason="burst_failed",
        )


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
