"""Who may write a series now: one lease row per series, with a term that grows at each take-over.

Every write of a series checks the term in its own transaction, so that a process which lost its lease without
noticing (a suspended host, a cut network) cannot add rows beside its successor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from canaryd.errors import Locked, UsageError
from canaryd.store import schema
from canaryd.store.engine import RowRefused, Store
from canaryd.store.process import Holder


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write one series until `expires_at`, or until another holder has taken it over."""

    series: str
    term: int
    holder: Holder
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class LeasePolicy:
    """How long a lease lasts without a heartbeat, and how a holder's death on this machine is seen."""

    ttl: timedelta
    is_alive: Callable[[Holder], bool]


def acquire_lease(store: Store, series: str, *, holder: Holder, now: datetime, policy: LeasePolicy) -> Lease:
    """Take the lease of a series that is free, lapsed, held by a process of this machine that has ended, or given to
    the taker by `hand_over`.

    Raises:
        Locked: a living process holds it; the text names that process.
        UsageError: the series is not registered.
    """
    try:
        with store.write() as connection:
            found = current_lease(connection, series, lock=True)
            is_others = found is not None and not found.holder.is_same_process(holder)
            if found is not None and is_others and _is_held(found, now=now, is_alive=policy.is_alive):
                raise _held(found)
            lease = Lease(series, 1 if found is None else found.term + 1, holder, now + policy.ttl)
            values = _values(lease, now)
            if found is None:
                connection.execute(insert(schema.lease).values(series=series, **values))
            else:
                connection.execute(update(schema.lease).where(schema.lease.c.series == series).values(values))
            return lease
    except RowRefused:
        # Either the series is unknown, or another process inserted the first lease in this very moment.
        with store.read() as connection:
            found = current_lease(connection, series)
        if found is None:
            raise UsageError(f"series {series!r} is not registered in {store.name}; run `canaryd register`") from None
        raise _held(found) from None


def renew_lease(store: Store, lease: Lease, *, now: datetime, policy: LeasePolicy) -> Lease:
    """Give a sign of life and return the lease with its later end; raise Locked if another holder took it over."""
    with store.write() as connection:
        require_lease(connection, lease, share=False)
        renewed = Lease(lease.series, lease.term, lease.holder, now + policy.ttl)
        statement = update(schema.lease).where(schema.lease.c.series == lease.series)
        connection.execute(statement.values(_values(renewed, now)))
    return renewed


def hand_over(store: Store, lease: Lease, *, to: Holder, now: datetime, policy: LeasePolicy) -> None:
    """Make another process the holder, without a moment in which anyone else could take the series.

    Raises:
        Locked: the lease is lost already.
    """
    renew_lease(store, Lease(lease.series, lease.term, to, lease.expires_at), now=now, policy=policy)


def release_lease(store: Store, lease: Lease, *, now: datetime) -> None:
    """End a lease at once; one that another holder has taken over stays as it is."""
    row = schema.lease.c
    with store.write() as connection:
        statement = update(schema.lease).where(row.series == lease.series, row.term == lease.term)
        connection.execute(statement.values(expires_at=now))


def current_lease(connection: Connection, series: str, *, lock: bool = False) -> Lease | None:
    """Return the last lease of a series, lapsed or not; with `lock` nobody else changes it meanwhile."""
    query = select(schema.lease).where(schema.lease.c.series == series)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    return None if row is None else _lease(row)


def living_lease(
    connection: Connection, series: str, *, now: datetime, is_alive: Callable[[Holder], bool]
) -> Lease | None:
    """Return the lease of a series that somebody holds now; None where it lapsed or its holder's process is gone."""
    found = current_lease(connection, series)
    return found if found is not None and _is_held(found, now=now, is_alive=is_alive) else None


def require_unheld(connection: Connection, *, now: datetime, is_alive: Callable[[Holder], bool]) -> None:
    """Raise Locked where a living process holds any series of the store: its schema is not changed under it."""
    for found in map(_lease, connection.execute(select(schema.lease).order_by(schema.lease.c.series))):
        if _is_held(found, now=now, is_alive=is_alive):
            raise Locked(
                f"series {found.series!r} is held by process {found.holder.pid} on {found.holder.host}, which knows "
                "the schema as it is; stop the daemon (or that run) first, and repeat"
            )


def require_lease(connection: Connection, lease: Lease, *, share: bool = True) -> None:
    """Raise Locked unless the lease is still the current one, and keep it so until the transaction ends.

    Shared, concurrent writers of one holder do not wait for each other, but a take-over waits for them.
    """
    query = select(schema.lease).where(schema.lease.c.series == lease.series).with_for_update(read=share)
    found = connection.execute(query).one_or_none()
    if found is None or found.term != lease.term:
        raise Locked(
            f"series {lease.series!r} was taken over from this process"
            + ("" if found is None else f" by process {found.pid} on {found.host}")
            + "; nothing more is written here, look at that process"
        )


def _is_held(lease: Lease, *, now: datetime, is_alive: Callable[[Holder], bool]) -> bool:
    return now < lease.expires_at and is_alive(lease.holder)


def _values(lease: Lease, now: datetime) -> dict[str, Any]:
    holder = lease.holder
    return {
        "term": lease.term,
        "host": holder.host,
        "machine": holder.machine,
        "pid": holder.pid,
        "process_start": holder.process_start,
        "heartbeat_at": now,
        "expires_at": lease.expires_at,
    }


def _lease(row: Row[Any]) -> Lease:
    return Lease(row.series, row.term, Holder(row.host, row.machine, row.pid, row.process_start), row.expires_at)


def _held(lease: Lease) -> Locked:
    return Locked(
        f"series {lease.series!r} is held by process {lease.holder.pid} on {lease.holder.host} until "
        f"{lease.expires_at.isoformat()}; stop that process or wait"
    )
