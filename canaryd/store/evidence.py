"""The rows that the ledger covers by name, in the transaction that stores them, and how each is named.

With the rows of runs, notes, verdicts and deviations (see `canonical`) they are all that a verdict or a report rests
upon. Left out is what is no evidence of the series, or is held to something else: `LEFT_OUT` says of each table why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, Table, select

from canaryd.store import schema
from canaryd.store import schema_contract as contract
from canaryd.store.canonical import LedgerRow, ledger_row, run_label
from canaryd.store.schema_alarms import acknowledgement, webhook_delivery
from canaryd.store.schema_judges import judge_usage
from canaryd.store.schema_regrades import regrade, regrade_difference
from canaryd.store.schema_studies import registration_document, study, study_sample
from canaryd.store.schema_texts import reply_text, text_block, text_expiry


class Covered(NamedTuple):
    """A table whose rows are covered by name: the rows of a series, and the name of one."""

    rows: Callable[[str], Select[Any]]
    name: Callable[[RowMapping], str]


_START = schema.run_start.c
_LABEL = (_START.arm, _START.slot_date, _START.attempt)


def _of_series(table: Table) -> Callable[[str], Select[Any]]:
    return lambda series: select(table).where(table.c.series == series)


def _of_runs(table: Table, what: str) -> Covered:
    def rows(series: str) -> Select[Any]:
        return select(table, *_LABEL).join_from(table, schema.run_start).where(_START.series == series)

    return Covered(rows, lambda row: f"{what} of run {run_label(row)}")


def _alarms(series: str) -> Select[Any]:
    verdict = schema.verdict.c
    decided = (verdict.epoch, verdict.window_index, verdict.decided_at)
    return (
        select(schema.alarm, *decided)
        .outerjoin_from(schema.alarm, schema.verdict)
        .where(schema.alarm.c.series == series)
    )


def _regrade_differences(series: str) -> Select[Any]:
    sample = schema.sample.c
    return (
        select(regrade_difference, regrade.c.at, sample.item_id, sample.replicate, *_LABEL)
        .join_from(regrade_difference, regrade)
        .join(schema.sample, sample.sample_id == regrade_difference.c.sample_id)
        .join(schema.run_start)
        .where(regrade.c.series == series)
    )


COVERED: dict[Table, Covered] = {
    contract.run_target: _of_runs(contract.run_target, "target"),
    contract.run_surroundings: _of_runs(contract.run_surroundings, "surroundings"),
    contract.run_usage: _of_runs(contract.run_usage, "usage"),
    contract.run_duration: _of_runs(contract.run_duration, "duration"),
    contract.run_report: _of_runs(contract.run_report, "report"),
    judge_usage: _of_runs(judge_usage, "judge's usage"),
    contract.event: Covered(
        _of_series(contract.event), lambda row: f"event {row['kind']} of {row['arm']} {row['slot_date']}"
    ),
    contract.sentinel_baseline: Covered(
        _of_series(contract.sentinel_baseline), lambda row: f"burst of sentinel {row['item_id']}"
    ),
    contract.sentinel_day: Covered(
        _of_series(contract.sentinel_day), lambda row: f"judgement of sentinel {row['item_id']} of {row['slot_date']}"
    ),
    contract.sentinel_usage: Covered(
        _of_series(contract.sentinel_usage), lambda row: f"usage of a burst of {row['arm']} {row['slot_date']}"
    ),
    schema.alarm: Covered(_alarms, lambda row: f"alarm since {row['since'].isoformat()}"),
    schema.early_warning: Covered(
        _of_series(schema.early_warning), lambda row: f"early warning {row['stream']} of {row['slot_date']}"
    ),
    acknowledgement: Covered(
        _of_series(acknowledgement), lambda row: f"acknowledgement of {row['state']} at {row['at'].isoformat()}"
    ),
    regrade: Covered(_of_series(regrade), lambda row: f"re-grading of {row['at'].isoformat()}"),
    regrade_difference: Covered(
        _regrade_differences,
        lambda row: f"re-graded sample {row['item_id']}/{row['replicate']} of {run_label(row)}",
    ),
    registration_document: Covered(_of_series(registration_document), lambda _: "registration document"),
}

LEFT_OUT: dict[Table, str] = {
    schema.ledger: "the chain itself",
    contract.fingerprint: "stands under the digest of its content, which the runs name",
    reply_text: "held to the digest in its sample",
    text_block: "held to the digests in its samples",
    text_expiry: "lets a text be absent; its digest stays in the sample",
    study: "comes before the series: the panel that follows from it is covered",
    study_sample: "comes before the series: the panel that follows from it is covered",
    webhook_delivery: "what a receiver was told changes nothing that was measured",
}


def covered_rows(
    connection: Connection, series: str, *, table: Table, where: ColumnElement[bool] | None = None
) -> Iterator[LedgerRow]:
    """Yield the rows of a covered table that belong to a series (and fulfil a condition), by their names."""
    covered = COVERED[table]
    query = covered.rows(series) if where is None else covered.rows(series).where(where)
    rows = (ledger_row(covered.name(row), row) for row in connection.execute(query).mappings())
    yield from sorted(rows, key=lambda row: (row.name, row.digest))
