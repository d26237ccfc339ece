"""Re-gradings of stored replies: appended beside the grades that stand, and read back.

A person may re-grade while a daemon holds the series, so this takes no lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, Row, select, true

from canaryd.records import Failure, Grade, SampleKey
from canaryd.store import ledger, schema
from canaryd.store.engine import Store
from canaryd.store.schema_regrades import regrade, regrade_difference

_RESULT = ("score", "answered", "passed", "grade_detail", "grader", "failure_kind", "failure_detail")


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored reply that graders of a later day judge otherwise; `old` is the result that stands."""

    sample_id: int
    key: SampleKey
    old: Grade | Failure
    new: Grade | Failure


@dataclass(frozen=True, slots=True)
class Regrade:
    """One pass over the stored replies of a series, from the slot of `since` on (None: all of them).

    `graders` are those that judged, as "exact@1". Of the replies, `identical` got the same grade again, `expired` have
    no text any more, and `ungraded` met a sandbox that did not work; the others are `differences`.
    """

    series: str
    at: datetime
    since: date | None
    graders: tuple[str, ...]
    identical: int
    expired: int
    ungraded: int
    differences: tuple[Difference, ...]

    @property
    def replies(self) -> int:
        """The number of stored replies that have a grade."""
        return self.identical + self.expired + self.ungraded + len(self.differences)


def append_regrade(store: Store, done: Regrade) -> None:
    """Store a pass with a row for each of its differences, all or nothing.

    Raises:
        RowRefused: the series does not exist, or a difference names no sample.
    """
    counts = {name: getattr(done, name) for name in ("series", "at", "since", "identical", "expired", "ungraded")}
    with store.write() as connection:
        row = {**counts, "graders": list(done.graders), "differing": len(done.differences)}
        ((regrade_id,),) = ledger.add(connection, done.series, table=regrade, rows=[row])
        differences = [
            {"regrade_id": regrade_id, "sample_id": each.sample_id, **_values(each.new)} for each in done.differences
        ]
        ledger.add(connection, done.series, table=regrade_difference, rows=differences)


def latest_mismatches(connection: Connection, series: str) -> int | None:
    """Return how many replies differed in the latest pass over a series; None where there was none."""
    query = select(regrade.c.differing).where(regrade.c.series == series).order_by(regrade.c.regrade_id.desc())
    found: int | None = connection.scalar(query.limit(1))
    return found


def latest_whole(connection: Connection, series: str) -> Regrade | None:
    """Return the latest pass over all replies of a series, or None; its differences are those of samples that count.

    Left out are sentinels and invalid samples, which enter no estimate.
    """
    query = select(regrade).where(regrade.c.series == series, regrade.c.since.is_(None))
    row = connection.execute(query.order_by(regrade.c.regrade_id.desc()).limit(1)).one_or_none()
    if row is None:
        return None
    return Regrade(
        series=row.series,
        at=row.at,
        since=row.since,
        graders=tuple(row.graders),
        identical=row.identical,
        expired=row.expired,
        ungraded=row.ungraded,
        differences=_counted(connection, row.regrade_id),
    )


def _counted(connection: Connection, regrade_id: int) -> tuple[Difference, ...]:
    sample, new = schema.effective_sample.c, regrade_difference.c
    query = (
        select(schema.effective_sample, *(new[name].label(f"new_{name}") for name in _RESULT))
        .join_from(regrade_difference, schema.effective_sample, sample.sample_id == new.sample_id)
        .where(new.regrade_id == regrade_id, sample.measured.is_(true()), sample.invalid_reason.is_(None))
        .order_by(sample.slot_date, sample.arm, sample.item_id, sample.replicate)
    )
    return tuple(_difference(row) for row in connection.execute(query))


def _difference(row: Row[Any]) -> Difference:
    key = SampleKey(row.series, row.arm, row.slot_date, row.item_id, row.replicate)
    return Difference(row.sample_id, key, old=_result(row, ""), new=_result(row, "new_"))


def _result(row: Row[Any], prefix: str) -> Grade | Failure:
    values = {name: row._mapping[prefix + name] for name in _RESULT}
    if values["failure_kind"] is not None:
        return Failure(values["failure_kind"], values["failure_detail"])
    return Grade(
        values["score"], values["answered"], values["passed"], detail=values["grade_detail"], grader=values["grader"]
    )


def _values(result: Grade | Failure) -> dict[str, Any]:
    if isinstance(result, Failure):
        return {"failure_kind": result.kind, "failure_detail": result.detail}
    return {
        "score": result.score,
        "answered": result.answered,
        "passed": result.passed,
        "grade_detail": result.detail,
        "grader": result.grader,
    }
