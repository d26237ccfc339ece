"""What is kept of sentinels: a burst taken before day 1, and one judgement a sentinel and slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table, case, func, select

from canaryd.records import JsonValue
from canaryd.stats.watch_state import SentinelState
from canaryd.store import schema_contract as contract
from canaryd.store.engine import Store
from canaryd.store.epochs import Deviation, deviations, insert_deviation
from canaryd.store.harness import Spending

if TYPE_CHECKING:
    from canaryd.store.lease import Lease

#: The key of a noted deviation that holds the harness of a burst.
_BURST = "burst"


@dataclass(frozen=True, slots=True)
class Burst:
    """Sums over the scores of a sentinel's burst, each in [0, 1]."""

    series: str
    item_id: str
    n: int
    total: float
    total_sq: float
    at: datetime


@dataclass(frozen=True, slots=True)
class SentinelDay:
    """One sentinel in one slot: its state, and the figures of the sentence; None where nothing was judged.

    `low` .. `high` are the means of the day that would not count as moved.
    """

    series: str
    slot_date: date
    item_id: str
    state: SentinelState
    baseline_n: int
    baseline_mean: float | None
    today_mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class BurstNote:
    """When the burst of a series was taken, of how many samples of each sentinel, and by arm with which harness."""

    series: str
    slot_date: date
    samples: int
    harness: Mapping[str, str]
    at: datetime


def add_bursts(store: Store, bursts: Sequence[Burst], *, note: BurstNote, lease: Lease) -> None:
    """Store the bursts of a series and what was noted of them, all or none.

    Raises:
        Locked: the lease is lost.
        RowRefused: a sentinel has its burst already.
    """
    said = f"before day 1 each sentinel was asked {note.samples} times, which is their baseline in epoch 1"
    detail: dict[str, JsonValue] = {_BURST: dict(note.harness)}
    with store.write() as connection:
        _require(connection, lease)
        _add(connection, contract.sentinel_baseline, rows=[asdict(burst) for burst in bursts])
        insert_deviation(connection, Deviation(note.series, "noted", note.slot_date, said, detail, at=note.at))


def burst_harness(connection: Connection, series: str) -> dict[str, str]:
    """Return by arm the digest of the harness that the burst of a series was taken with, none where that is unknown."""
    for noted in deviations(connection, series, kind="noted"):
        harness = noted.detail.get(_BURST)
        if isinstance(harness, dict):
            return {arm: str(digest) for arm, digest in harness.items()}
    return {}


def charge_burst(store: Store, spending: Spending, *, series: str, arm: str, slot_date: date, lease: Lease) -> None:
    """Store what asking for a burst used up, be the burst stored or not; raises Locked when the lease is lost."""
    values = {name: getattr(spending, name) for name in Spending.__slots__}
    with store.write() as connection:
        _require(connection, lease)
        row = {"series": series, "arm": arm, "slot_date": slot_date, **values}
        _add(connection, contract.sentinel_usage, rows=[row])


def burst_spending(connection: Connection, series: str, *, first: date, last: date) -> dict[tuple[str, date], Spending]:
    """Return by arm and date what bursts of a series used up."""
    row = contract.sentinel_usage.c
    sums = [func.sum(row[name]).label(name) for name in Spending.__slots__]
    rows = connection.execute(
        select(row.arm, row.slot_date, *sums)
        .where(row.series == series, row.slot_date.between(first, last))
        .group_by(row.arm, row.slot_date)
    )
    return {
        (each.arm, each.slot_date): Spending(int(each.calls), int(each.input_tokens), int(each.output_tokens))
        for each in rows
    }


def bursts(connection: Connection, series: str) -> dict[str, Burst]:
    """Return the bursts of a series by item."""
    row = contract.sentinel_baseline.c
    query = select(*(row[name] for name in Burst.__slots__)).where(row.series == series).order_by(row.item_id)
    return {each["item_id"]: Burst(**each) for each in connection.execute(query).mappings()}


def add_days(store: Store, days: Sequence[SentinelDay], *, lease: Lease) -> None:
    """Store judgements, all or none.

    Raises:
        Locked: the lease is lost.
        RowRefused: one is there already.
    """
    with store.write() as connection:
        _require(connection, lease)
        _add(connection, contract.sentinel_day, rows=[asdict(day) for day in days])


def days(connection: Connection, series: str, *, first: date | None = None) -> tuple[SentinelDay, ...]:
    """Return the judgements of a series from a slot date on, by date and item."""
    row = contract.sentinel_day.c
    query = select(*(row[name] for name in SentinelDay.__slots__)).where(row.series == series)
    if first is not None:
        query = query.where(row.slot_date >= first)
    rows = connection.execute(query.order_by(row.slot_date, row.item_id)).mappings()
    return tuple(SentinelDay(**each) for each in rows)


def last_day(connection: Connection, series: str) -> date | None:
    """Return the newest slot date that was judged, or None."""
    row = contract.sentinel_day.c
    found: date | None = connection.scalar(
        select(row.slot_date).where(row.series == series).order_by(row.slot_date.desc()).limit(1)
    )
    return found


def unjudged_slots(connection: Connection, series: str) -> int:
    """Return the longest stretch of slots, up to the newest, in which one sentinel was never judged."""
    row = contract.sentinel_day.c
    newest = last_day(connection, series)
    if newest is None:
        return 0
    judged = func.max(case((row.state != "unjudged", row.slot_date)))
    query = select(judged, func.min(row.slot_date)).where(row.series == series).group_by(row.item_id)
    rows = connection.execute(query.having(func.max(row.slot_date) == newest))
    # Every date has its row, that of a missed slot too, so days count slots.
    return max(int((newest - (last or first - timedelta(days=1))).days) for last, first in rows)


def _add(connection: Connection, table: Table, *, rows: Sequence[dict[str, Any]]) -> None:
    # Imported here: whoever only reads, `canaryd status` above all, needs no hash chain.
    from canaryd.store import ledger

    for series in {row["series"] for row in rows}:
        ledger.add(connection, series, table=table, rows=[row for row in rows if row["series"] == series])


def _require(connection: Connection, lease: Lease) -> None:
    # Imported here: whoever only reads, `canaryd status` above all, holds no lease.
    from canaryd.store.lease import require_lease

    require_lease(connection, lease)
