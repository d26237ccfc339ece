"""What each run was made with: the components of its harness, its recorded target, and what it used up."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, Table, and_, func, insert, or_, select

from canaryd.records import OUTCOME_FAILURES, JsonValue
from canaryd.store import schema
from canaryd.store import schema_contract as contract
from canaryd.store.engine import Store

if TYPE_CHECKING:
    from canaryd.store.lease import Lease


@dataclass(frozen=True, slots=True)
class Spending:
    """Provider calls and tokens of one or several runs."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def keep_fingerprint(store: Store, digest: str, *, components: Mapping[str, str]) -> None:
    """Store the components of a harness under their digest; one that is known stays as it is."""
    row = contract.fingerprint
    with store.write() as connection:
        if connection.scalar(select(row.c.digest).where(row.c.digest == digest)) is None:
            connection.execute(insert(row).values(digest=digest, components=dict(components)))


def components(connection: Connection, digests: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the components of stored harnesses by digest; a digest that is not known is left out."""
    row = contract.fingerprint.c
    rows = connection.execute(select(row.digest, row.components).where(row.digest.in_(sorted(digests))))
    return {each.digest: each.components for each in rows}


def reference_digests(connection: Connection, series: str, *, epoch: int) -> dict[str, str]:
    """Return by arm the harness of the epoch's first run that measured something."""
    start = schema.run_start.c
    sample = schema.sample.c
    is_final = or_(sample.score.is_not(None), sample.failure_kind.in_(sorted(OUTCOME_FAILURES)))
    measured = select(sample.sample_id).where(sample.run_id == start.run_id, is_final).exists()
    first = (
        select(start.fingerprint)
        .where(start.series == series, start.epoch == epoch, start.fingerprint.is_not(None), measured)
        .order_by(start.run_id)
        .limit(1)
    )
    arms = connection.scalars(select(schema.arm.c.arm).where(schema.arm.c.series == series)).all()
    found = {arm: connection.scalar(first.where(start.arm == arm)) for arm in arms}
    return {arm: digest for arm, digest in found.items() if digest is not None}


def keep_target(store: Store, recorded: Mapping[str, JsonValue], *, run_id: int, lease: Lease) -> None:
    """Store the recorded configuration of a run's target; raises Locked when the lease is lost."""
    keep_of_run(store, contract.run_target, run_id=run_id, lease=lease, values={"recorded": dict(recorded)})


def keep_surroundings(store: Store, recorded: Mapping[str, str], *, run_id: int, lease: Lease) -> None:
    """Store what a run was measured with and on, which nothing compares; raises Locked when the lease is lost."""
    keep_of_run(store, contract.run_surroundings, run_id=run_id, lease=lease, values={"recorded": dict(recorded)})


def target_on(
    connection: Connection, series: str, *, arm: str, last: date, before_run: int | None = None
) -> dict[str, JsonValue] | None:
    """Return what was recorded last of an arm's target up to a slot date (and before a run), None where nothing was."""
    start = schema.run_start.c
    query = (
        select(contract.run_target.c.recorded)
        .join_from(contract.run_target, schema.run_start)
        .where(start.series == series, start.arm == arm, start.slot_date <= last)
        .order_by(start.run_id.desc())
        .limit(1)
    )
    if before_run is not None:
        query = query.where(start.run_id < before_run)
    found: dict[str, JsonValue] | None = connection.scalar(query)
    return found


def keep_report(
    store: Store, *, first: Mapping[str, JsonValue], last: Mapping[str, JsonValue], run_id: int, lease: Lease
) -> None:
    """Store the configurations that an application reported in a run; raises Locked when the lease is lost."""
    values = {"first": dict(first), "last": dict(last)}
    keep_of_run(store, contract.run_report, run_id=run_id, lease=lease, values=values)


def report_on(
    connection: Connection, series: str, *, arm: str, last: date, before_run: int
) -> dict[str, JsonValue] | None:
    """Return what an arm's application reported first in its latest run before, None where nothing was reported."""
    start = schema.run_start.c
    found: dict[str, JsonValue] | None = connection.scalar(
        select(contract.run_report.c.first)
        .join_from(contract.run_report, schema.run_start)
        .where(start.series == series, start.arm == arm, start.slot_date <= last, start.run_id < before_run)
        .order_by(start.run_id.desc())
        .limit(1)
    )
    return found


def keep_duration(store: Store, seconds: float, *, run_id: int, lease: Lease) -> None:
    """Store how long a run took by a monotonic clock; raises Locked when the lease is lost."""
    keep_of_run(store, contract.run_duration, run_id=run_id, lease=lease, values={"seconds": round(seconds, 3)})


def duration_s(connection: Connection, run_id: int) -> float | None:
    """Return for how many seconds a run was measured, None where that was not stored."""
    row = contract.run_duration.c
    found: float | None = connection.scalar(select(row.seconds).where(row.run_id == run_id))
    return found


def last_duration(connection: Connection, series: str) -> timedelta:
    """Return how long the latest slot took that was completed, by the arm that took longest; zero before there is one.

    It is the attempt that completed the slot which counts.
    """
    start = schema.run_start.c
    query = (
        select(start.slot_date, func.max(contract.run_duration.c.seconds).label("seconds"))
        .join_from(schema.run_start, schema.run_end)
        .join(contract.run_duration, contract.run_duration.c.run_id == start.run_id)
        .where(start.series == series, schema.run_end.c.outcome == "completed")
        .group_by(start.slot_date)
        .order_by(start.slot_date.desc())
        .limit(1)
    )
    found = connection.execute(query).one_or_none()
    return timedelta(seconds=found.seconds if found else 0.0)


def keep_usage(store: Store, spending: Spending, *, run_id: int, lease: Lease) -> None:
    """Store what a run used up, calls that failed included; raises Locked when the lease is lost."""
    values = {name: getattr(spending, name) for name in Spending.__slots__}
    keep_of_run(store, contract.run_usage, run_id=run_id, lease=lease, values=values)


def spending(connection: Connection, series: str, *, first: date, last: date) -> dict[tuple[str, date], Spending]:
    """Return by arm and slot date what the runs of a span of slots used up.

    A run that never closed its account (its process died) counts by the samples that it stored.
    """
    start = schema.run_start.c
    span = and_(start.series == series, start.slot_date.between(first, last))
    found: dict[tuple[str, date], Spending] = {}
    for query in (_accounted(), _by_samples()):
        for each in connection.execute(query.where(span).group_by(start.arm, start.slot_date)):
            known = found.get((each.arm, each.slot_date), Spending())
            found[each.arm, each.slot_date] = Spending(
                known.calls + int(each.calls),
                known.input_tokens + int(each.input_tokens),
                known.output_tokens + int(each.output_tokens),
            )
    return found


def _accounted() -> Select[Any]:
    usage, start = contract.run_usage.c, schema.run_start.c
    sums = [func.sum(usage[name]).label(name) for name in Spending.__slots__]
    return select(start.arm, start.slot_date, *sums).join_from(contract.run_usage, schema.run_start)


def _by_samples() -> Select[Any]:
    sample, start, usage = schema.sample.c, schema.run_start.c, contract.run_usage
    sums = [func.coalesce(func.sum(sample[name]), 0).label(name) for name in Spending.__slots__]
    return (
        select(start.arm, start.slot_date, *sums)
        .join_from(schema.sample, schema.run_start)
        .outerjoin(usage, usage.c.run_id == start.run_id)
        .where(usage.c.run_id.is_(None))
    )


def keep_of_run(store: Store, table: Table, *, run_id: int, lease: Lease, values: Mapping[str, JsonValue]) -> None:
    """Store one row about a run, covered by the ledger; raises Locked when the lease is lost."""
    # Imported here: whoever only reads, `canaryd status` above all, holds no lease and needs no hash chain.
    from canaryd.store import ledger
    from canaryd.store.lease import require_lease

    with store.write() as connection:
        require_lease(connection, lease)
        ledger.add(connection, lease.series, table=table, rows=[{"run_id": run_id, **values}])
