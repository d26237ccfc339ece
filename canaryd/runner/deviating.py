"""What a person decides about a series: a drift is accepted, a baseline is begun anew, a change is acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from canaryd.delta import Delta
from canaryd.errors import UsageError
from canaryd.fingerprint import Fingerprint, only_tools
from canaryd.records import JsonValue
from canaryd.runner.carried import carried
from canaryd.runner.drift import harnesses
from canaryd.runner.preflight import arm_fingerprints
from canaryd.runner.slot import Slot
from canaryd.store import harness, read
from canaryd.store.epochs import Deviation, DeviationKind, add_deviation, deviations, epochs, open_epoch
from canaryd.store.rows import StoredVerdict


@dataclass(frozen=True, slots=True)
class Drift:
    """What differs from the epoch's harness, by arm, and the harness of every arm as it is now."""

    deltas: Mapping[str, tuple[Delta, ...]]
    now: Mapping[str, Fingerprint]


def drift_of(slot: Slot) -> Drift:
    """Return what differs now; nothing is asked."""
    now = asyncio.run(_fingerprints(slot))
    with slot.store.read() as connection:
        known = harnesses(connection, slot.series.name, epoch=slot.epoch)
    deltas = {arm: known.deltas(arm, fingerprint) for arm, fingerprint in now.items()}
    return Drift({arm: found for arm, found in deltas.items() if found}, now)


async def _fingerprints(slot: Slot) -> dict[str, Fingerprint]:
    lanes = slot.lanes([arm.name for arm in slot.config.arms])
    try:
        return await arm_fingerprints(slot, lanes)
    finally:
        for lane in lanes.values():
            await lane.provider.aclose()


def accept(slot: Slot, drift: Drift, *, reason: str) -> date:
    """Open a new baseline epoch for the whole series at the next slot, and return that slot's date.

    Raises:
        UsageError: nothing differs.
    """
    _require_drift(drift)
    return _open(slot, drift, kind="accepted", reason=reason)


def accept_equivalent(slot: Slot, drift: Drift, *, reason: str) -> None:
    """Accept other SDK or CLI versions as equivalent: the epoch goes on, and the acceptance is printed for ever.

    Raises:
        UsageError: nothing differs, or more than versions does.
    """
    _require_drift(drift)
    for arm, deltas in drift.deltas.items():
        if not only_tools(deltas):
            raise UsageError(
                f"{arm}: {_listed(deltas)}; only versions of an SDK or a CLI can be equivalent, and only while every "
                "request stays byte for byte the same; accept it without --equivalent, which begins a new baseline"
            )
    for arm, deltas in drift.deltas.items():
        fingerprint = drift.now[arm]
        harness.keep_fingerprint(slot.store, fingerprint.digest, components=fingerprint.components)
        detail: dict[str, JsonValue] = {
            "epoch": slot.epoch.number,
            "arm": arm,
            "harness": fingerprint.digest,
            "deltas": [str(delta) for delta in deltas],
        }
        add_deviation(slot.store, _deviation(slot, "equivalent", reason=reason, detail=detail))


def rebaseline(slot: Slot, drift: Drift, *, reason: str) -> date:
    """Open a new baseline epoch without a drift, and return the date of its first slot.

    Raises:
        UsageError: something differs; that is a deviation to accept.
    """
    if drift.deltas:
        arm, deltas = next(iter(drift.deltas.items()))
        raise UsageError(f"{arm}: {_listed(deltas)}; accept that with `canaryd deviation accept --reason TEXT`")
    return _open(slot, drift, kind="rebaseline", reason=reason)


def acknowledge(slot: Slot, *, reason: str) -> StoredVerdict:
    """End the change that an earlier epoch carried over, and return its verdict.

    Raises:
        UsageError: no change is carried.
    """
    change = carried_change(slot)
    if change is None:
        raise UsageError(
            f"series {slot.series.name!r} carries no change from an earlier epoch; silence its alarm state with --until"
        )
    detail: dict[str, JsonValue] = {"epoch": change.verdict.epoch, "window": change.verdict.window_index}
    add_deviation(slot.store, _deviation(slot, "ack", reason=reason, detail=detail))
    return change


def carried_change(slot: Slot) -> StoredVerdict | None:
    """Return the change that stays on beyond the epoch that declared it, one that is opened already included."""
    name = slot.series.name
    with slot.store.read() as connection:
        known, notes = epochs(connection, slot.series), deviations(connection, name)
        return carried(read.last_verdicts(connection, name), known, deviations=notes)


def _open(slot: Slot, drift: Drift, *, kind: Literal["accepted", "rebaseline"], reason: str) -> date:
    for fingerprint in drift.now.values():
        harness.keep_fingerprint(slot.store, fingerprint.digest, components=fingerprint.components)
    detail: dict[str, JsonValue] = {
        "harness": {arm: fingerprint.digest for arm, fingerprint in drift.now.items()},
        "deltas": {arm: [str(delta) for delta in deltas] for arm, deltas in drift.deltas.items()},
    }
    with slot.store.read() as connection:
        newest = epochs(connection, slot.series)[-1]
    first = _next_slot(slot)
    if newest.first_date >= first:
        raise UsageError(
            f"epoch {newest.number} begins on {newest.first_date} already; let it begin before you open another"
        )
    deviation = _deviation(slot, kind, reason=reason, detail=detail, on=first)
    open_epoch(slot.store, deviation, number=newest.number + 1)
    return first


def _next_slot(slot: Slot) -> date:
    """Return today where nothing of today's slot was asked yet, else tomorrow."""
    today = slot.slot_date
    with slot.store.read() as connection:
        runs = read.runs(connection, slot.series.name, first=today, last=today)
    untouched = all(run.end is not None and run.end.outcome == "refused" for run in runs)
    return today if untouched else today + timedelta(days=1)


def _deviation(
    slot: Slot, kind: DeviationKind, *, reason: str, detail: Mapping[str, JsonValue], on: date | None = None
) -> Deviation:
    return Deviation(slot.series.name, kind, on or slot.slot_date, reason, detail, at=slot.clock.now())


def _require_drift(drift: Drift) -> None:
    if not drift.deltas:
        raise UsageError("nothing differs from the epoch's harness, so there is no deviation to accept")


def _listed(deltas: tuple[Delta, ...]) -> str:
    return "; ".join(map(str, deltas))
