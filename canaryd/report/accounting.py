"""Where every sample went: owed, scored, failed, set aside, never measured; the sums agree to the last sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from canaryd.records import Run
from canaryd.store import read, schema
from canaryd.store.rows import Series


@dataclass(frozen=True, slots=True)
class ArmAccount:
    """The samples of one arm, sentinels among them, over all slots so far.

    `owed` = scored + failures + invalid + missing. `invalid` counts samples that are set aside, by reason, `failures`
    the others without a score, by kind; `superseded` ones were asked again by a later attempt and count nowhere else.
    """

    arm: str
    slots: int
    owed: int
    scored: int
    failures: Mapping[str, int]
    invalid: Mapping[str, int]
    missing: int
    superseded: int
    runs: Mapping[str, int]


def read_accounts(connection: Connection, series: Series) -> tuple[ArmAccount, ...]:
    """Return the account of every arm, the tracked one first."""
    runs = read.runs(connection, series.name)
    planned = {
        digest: sum(item.replicates for item in read.panel_items(connection, digest))
        for digest in {run.start.panel_digest for run in runs}
    }
    stored = _stored(connection, series.name)
    return tuple(
        _account(
            connection,
            arm.name,
            runs=[run for run in runs if run.start.arm == arm.name],
            planned=planned,
            stored=stored.get(arm.name, 0),
        )
        for arm in read.arms(connection, series.name)
    )


def _account(
    connection: Connection, arm: str, *, runs: Sequence[Run], planned: Mapping[str, int], stored: int
) -> ArmAccount:
    slots = {run.start.slot_date: run.start.panel_digest for run in runs}
    owed = sum(planned[digest] for digest in slots.values())
    failures: Counter[str] = Counter()
    invalid: Counter[str] = Counter()
    scored = 0
    for kind, reason, count in _counted(connection, runs[0].start.series, arm=arm) if runs else ():
        if reason is not None:
            invalid[reason] += count
        elif kind is not None:
            failures[kind] += count
        else:
            scored += count
    counted = scored + failures.total() + invalid.total()
    return ArmAccount(
        arm=arm,
        slots=len(slots),
        owed=owed,
        scored=scored,
        failures=dict(sorted(failures.items())),
        invalid=dict(sorted(invalid.items())),
        missing=owed - counted,
        superseded=stored - counted,
        runs=dict(sorted(Counter(run.end.outcome if run.end else "open" for run in runs).items())),
    )


def _counted(connection: Connection, series: str, *, arm: str) -> list[tuple[str | None, str | None, int]]:
    """Return (failure kind, reason of being invalid, count) of the samples that count, one of each that was asked."""
    row = schema.effective_sample.c
    query = select(row.failure_kind, row.invalid_reason, func.count()).where(row.series == series, row.arm == arm)
    found = connection.execute(query.group_by(row.failure_kind, row.invalid_reason))
    return [(kind, reason, count) for kind, reason, count in found]


def _stored(connection: Connection, series: str) -> dict[str, int]:
    start = schema.run_start.c
    query = select(start.arm, func.count()).join_from(schema.sample, schema.run_start).where(start.series == series)
    return dict(connection.execute(query.group_by(start.arm)).all())
