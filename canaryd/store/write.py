"""The only INSERTs of measurements and decisions. One short transaction per call; rows never change afterwards.

What belongs to a running series takes the lease and raises Locked once another process has taken the series over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Table, and_, insert, select

from canaryd.errors import UsageError
from canaryd.hashing import digest
from canaryd.records import (
    Alarm,
    Arm,
    EarlyWarningDay,
    Failure,
    JsonValue,
    Reply,
    Run,
    RunEnd,
    RunStart,
    Sample,
    Verdict,
)
from canaryd.store import ledger, replies, run_totals, schema, texts, totals
from canaryd.store.engine import RowRefused, Store
from canaryd.store.judges import add_judged_items
from canaryd.store.lease import Lease, require_lease
from canaryd.store.rows import AlreadyClaimed, Invalid, Plan


def register_series(store: Store, plan: Plan) -> None:
    """Store a series with its registration, arms and panel (which may be there already).

    Raises:
        UsageError: a series of that name exists.
    """
    with store.write() as connection:
        _register(connection, plan, into=store.name)


def import_samples(store: Store, plan: Plan, *, samples: Sequence[Sample], at: datetime) -> None:
    """Store a series that was measured elsewhere, all or nothing: a completed run for each arm and day.

    A day without a sample, from the start of the series to the last sample of any arm, is a missed slot of its arm.

    Raises:
        UsageError: a series of that name exists.
        RowRefused: a sample is there twice, breaks a rule, or belongs to an arm that the plan does not name.
        ValueError: the plan is not marked as imported, or its panel lacks an item.
    """
    if plan.imported_at is None:
        raise ValueError(f"the plan of the imported series {plan.series!r} has no imported_at")
    runs: dict[tuple[str, date], list[Sample]] = {}
    for sample in samples:
        runs.setdefault((sample.key.arm, sample.key.slot_date), []).append(sample)
    panel_digest, registration_digest = plan.panel.digest, plan.registration_digest
    last = max((slot_date for _, slot_date in runs), default=plan.start_date)
    for offset in range((last - plan.start_date).days + 1):
        for arm in plan.arms:
            runs.setdefault((arm.name, plan.start_date + timedelta(days=offset)), [])
    with store.write() as connection:
        _register(connection, plan, into=store.name)
        for (name, slot_date), content in sorted(runs.items(), key=lambda each: (each[0][1], each[0][0])):
            start = RunStart(plan.series, name, slot_date, 1, at, at, panel_digest, registration_digest, None)
            # Nobody held a lease of it yet: the first holder's term is 1.
            values = asdict(start) | {"epoch": 1, "term": 0}
            run_id = _insert(connection, into=schema.run_start, values=values)
            for sample in content:
                _add_sample(connection, sample, run=values | {"run_id": run_id})
            end = RunEnd(at, "completed", "imported") if content else RunEnd(at, "missed", "nothing was imported")
            _close_run(connection, run_id, series=plan.series, end=end)
    replies.pack_closed(store, plan.series)


def claim_slot(
    store: Store, starts: Sequence[RunStart], *, lease: Lease, epoch: int
) -> tuple[Run, ...] | AlreadyClaimed:
    """Start the runs of one slot, all or none: of two claims of the same attempt exactly one returns runs.

    Raises:
        Locked: the lease is lost.
        RowRefused: an arm is not registered.
    """
    return _claim(store, starts, lease=lease, epoch=epoch, end=None)


def record_missed(
    store: Store, starts: Sequence[RunStart], *, end: RunEnd, lease: Lease, epoch: int
) -> tuple[Run, ...] | AlreadyClaimed:
    """Store runs of a slot that asked nothing (missed, refused): they end, with the reason, as they start.

    Raises:
        Locked: the lease is lost.
        RowRefused: an arm is not registered.
    """
    return _claim(store, starts, lease=lease, epoch=epoch, end=end)


def append_sample(store: Store, sample: Sample, *, run_id: int, lease: Lease) -> int:
    """Store one sample of an open run and return its id; the very same sample a second time changes nothing.

    So a caller that lost the connection, and cannot know whether its sample was stored, just repeats the call.

    Raises:
        Locked: the lease is lost.
        RowRefused: another sample is there already, or this one breaks a rule (a score outside [0, 1], NaN included).
        ValueError: the run is closed or another one than the sample's, or its panel has no such item.
    """
    return append_samples(store, (sample,), run_id=run_id, lease=lease)[0]


def append_samples(store: Store, samples: Sequence[Sample], *, run_id: int, lease: Lease) -> tuple[int, ...]:
    """Store samples of one open run, all or none, and return their ids in order; raises as `append_sample`."""
    try:
        with store.write() as connection:
            require_lease(connection, lease)
            run = _open_run(connection, run_id, lease=lease)
            return tuple(_add_sample(connection, sample, run=run) for sample in samples)
    except RowRefused:
        with store.read() as connection:
            stored = [_same_sample(connection, sample, run_id=run_id) for sample in samples]
        if None in stored:
            raise
        return tuple(sample_id for sample_id in stored if sample_id is not None)


def end_run(store: Store, end: RunEnd, *, run_id: int, lease: Lease) -> None:
    """Close an open run and pack its texts; what a dead process left open ends as `abandoned`, by the next holder.

    Raises:
        Locked: the lease is lost.
        ValueError: the run is closed already.
    """
    with store.write() as connection:
        require_lease(connection, lease)
        _open_run(connection, run_id, lease=lease)
        _close_run(connection, run_id, series=lease.series, end=end)
    replies.pack_closed(store, lease.series)


def append_validity(store: Store, note: Invalid) -> int:
    """Mark one run or sample invalid and return the note's id; a person may do so while a daemon holds the series.

    Raises:
        RowRefused: there is no such run or sample, or not exactly one of the two is named.
    """
    with store.write() as connection:
        validity_id = _insert(connection, into=schema.validity, values=asdict(note))
        series, arm, slot_date = _day_of(connection, note)
        ledger.extend(connection, series, kind="validity", row_id=validity_id)
        totals.keep_day(connection, series, arm=arm, slot_date=slot_date)
        return validity_id


def append_verdict(store: Store, verdict: Verdict, *, lease: Lease) -> int:
    """Store a verdict and return its id.

    Raises:
        Locked: the lease is lost.
        RowRefused: its window has a verdict that this one does not supersede, or a superseded one is named again.
        ValueError: a clause has no canonical JSON form (NaN).
    """
    values = {field: getattr(verdict, field) for field in Verdict.__slots__}
    values |= {"reasons": list(verdict.reasons), "clauses": dict(verdict.clauses)}
    with store.write() as connection:
        require_lease(connection, lease)
        verdict_id = _insert(connection, into=schema.verdict, values=values)
        ledger.extend(connection, verdict.series, kind="verdict", row_id=verdict_id)
        return verdict_id


def append_alarm(store: Store, alarm: Alarm, *, lease: Lease) -> None:
    """Store a transition of a series' alarm state; raises Locked when the lease is lost."""
    with store.write() as connection:
        require_lease(connection, lease)
        ledger.add(connection, alarm.series, table=schema.alarm, rows=[asdict(alarm)])


def append_early_warning(store: Store, days: Sequence[EarlyWarningDay], *, lease: Lease) -> None:
    """Store steps of early-warning streams, all or none.

    Raises:
        Locked: the lease is lost.
        RowRefused: a step is there already, or its capital is no number.
    """
    with store.write() as connection:
        require_lease(connection, lease)
        ledger.add(connection, lease.series, table=schema.early_warning, rows=map(asdict, days))


def _claim(
    store: Store, starts: Sequence[RunStart], *, lease: Lease, epoch: int, end: RunEnd | None
) -> tuple[Run, ...] | AlreadyClaimed:
    try:
        with store.write() as connection:
            require_lease(connection, lease)
            runs = []
            for start in starts:
                run_id = _insert(
                    connection, into=schema.run_start, values=asdict(start) | {"epoch": epoch, "term": lease.term}
                )
                totals.forget_day(connection, start.series, arm=start.arm, slot_date=start.slot_date)
                if end is not None:
                    _close_run(connection, run_id, series=lease.series, end=end)
                runs.append(Run(run_id, start, end))
            return tuple(runs)
    except RowRefused:
        with store.read() as connection:
            for start in starts:
                since = connection.scalar(select(schema.run_start.c.started_at).where(_same_attempt(start)))
                if since is not None:
                    return AlreadyClaimed(start.series, start.arm, start.slot_date, start.attempt, since)
        raise


def _same_attempt(start: RunStart) -> ColumnElement[bool]:
    row = schema.run_start.c
    return and_(
        row.series == start.series,
        row.slot_date == start.slot_date,
        row.arm == start.arm,
        row.attempt == start.attempt,
    )


def _open_run(connection: Connection, run_id: int, *, lease: Lease) -> RowMapping:
    start, end = schema.run_start, schema.run_end
    query = select(start, end.c.outcome).outerjoin_from(start, end).where(start.c.run_id == run_id)
    run = connection.execute(query).mappings().one_or_none()
    if run is None or run["series"] != lease.series:
        raise ValueError(f"series {lease.series!r} has no run {run_id}")
    if run["outcome"] is not None:
        raise ValueError(f"run {run_id} of series {lease.series!r} is closed ({run['outcome']})")
    return run


def _close_run(connection: Connection, run_id: int, *, series: str, end: RunEnd) -> None:
    connection.execute(insert(schema.run_end).values(run_id=run_id, **asdict(end)))
    ledger.extend(connection, series, kind="run", row_id=run_id)
    # After the ledger, whose lock lets one transaction at a time past: what others stored before is seen.
    start = schema.run_start.c
    arm, slot_date = connection.execute(select(start.arm, start.slot_date).where(start.run_id == run_id)).one()
    totals.keep_day(connection, series, arm=arm, slot_date=slot_date)
    run_totals.keep_run(connection, run_id)


def _day_of(connection: Connection, note: Invalid) -> tuple[str, str, date]:
    """Return series, arm and slot date that a note concerns."""
    start, sample = schema.run_start, schema.sample
    query = select(start.c.series, start.c.arm, start.c.slot_date)
    if note.sample_id is None:
        query = query.where(start.c.run_id == note.run_id)
    else:
        query = query.join(sample).where(sample.c.sample_id == note.sample_id)
    series, arm, slot_date = connection.execute(query).one()
    return series, arm, slot_date


def _add_sample(connection: Connection, sample: Sample, *, run: RowMapping | dict[str, Any]) -> int:
    key = sample.key
    if (key.series, key.arm, key.slot_date) != (run["series"], run["arm"], run["slot_date"]):
        raise ValueError(f"{key} is not a sample of run {run['run_id']}")
    item = schema.panel_item.c
    query = select(item.ordinal).where(item.panel_digest == run["panel_digest"], item.item_id == key.item_id)
    if connection.scalar(query) is None:
        raise ValueError(f"the panel of run {run['run_id']} has no item {key.item_id!r}")
    values = {
        "run_id": run["run_id"],
        "item_id": key.item_id,
        "replicate": key.replicate,
        "asked_at": sample.asked_at,
        "ended_at": sample.ended_at,
        "calls": sample.calls,
        "text_digest": _text_digest(sample.reply),
    }
    sample_id = _insert(
        connection, into=schema.sample, values=values | _result_values(sample) | _reply_values(sample.reply)
    )
    if sample.reply is not None:
        replies.keep_text(connection, sample_id, text=sample.reply.text)
    return sample_id


def _same_sample(connection: Connection, sample: Sample, *, run_id: int) -> int | None:
    row = schema.sample.c
    query = select(row.sample_id).where(
        row.run_id == run_id,
        row.item_id == sample.key.item_id,
        row.replicate == sample.key.replicate,
        row.asked_at == sample.asked_at,
        row.ended_at == sample.ended_at,
        row.text_digest.is_not_distinct_from(_text_digest(sample.reply)),
    )
    found: int | None = connection.scalar(query)
    return found


def _text_digest(reply: Reply | None) -> str | None:
    return None if reply is None else digest(texts.encode(reply.text))


def _result_values(sample: Sample) -> dict[str, Any]:
    result = sample.result
    if isinstance(result, Failure):
        return {"failure_kind": result.kind, "failure_detail": result.detail}
    return {
        "score": result.score,
        "answered": result.answered,
        "passed": result.passed,
        "grade_detail": result.detail,
        "grader": result.grader,
    }


def _reply_values(reply: Reply | None) -> dict[str, Any]:
    if reply is None:
        return {}
    return {field: getattr(reply, field) for field in Reply.__slots__ if field != "text"}


def _register(connection: Connection, plan: Plan, *, into: str) -> None:
    if connection.scalar(select(schema.series.c.name).where(schema.series.c.name == plan.series)) is not None:
        raise UsageError(
            f"series {plan.series!r} is already registered in {into} and cannot change; "
            "register the new plan under another name"
        )
    _add_panel(connection, plan)
    connection.execute(
        insert(schema.series).values(
            name=plan.series,
            registered_at=plan.registered_at,
            start_date=plan.start_date,
            seed=plan.seed,
            panel_digest=plan.panel.digest,
            registration_digest=plan.registration_digest,
            registration=plan.registration,
            simulation=plan.simulation,
            imported_at=plan.imported_at,
        )
    )
    for arm in plan.arms:
        connection.execute(insert(schema.arm).values(_arm_values(plan.series, arm)))
    add_judged_items(connection, plan.series, items=plan.items, measured=plan.judged_measured)
    ledger.extend(connection, plan.series, kind="series")


def _add_panel(connection: Connection, plan: Plan) -> None:
    panel = plan.panel
    if connection.scalar(select(schema.panel.c.digest).where(schema.panel.c.digest == panel.digest)) is not None:
        return
    connection.execute(insert(schema.panel).values(asdict(panel)))
    for ordinal, item in enumerate(plan.items):
        connection.execute(
            insert(schema.panel_item).values(
                panel_digest=panel.digest,
                item_id=item.item_id,
                ordinal=ordinal,
                family=item.family,
                cluster=item.cluster,
                sentinel=item.sentinel,
                replicates=item.replicates,
                target_label=item.target if isinstance(item.target, str) else None,
            )
        )


def _arm_values(series: str, arm: Arm) -> dict[str, Any]:
    """Return the row of an arm; its base URL is left out where the arm withholds it, its credential always."""
    config: dict[str, JsonValue] = {
        "params": dict(arm.params),
        "options": dict(arm.options),
        "timeout_s": arm.timeout_s,
        "concurrency": arm.concurrency,
        "requests_per_minute": arm.requests_per_minute,
        "expect_resolved": arm.expect_resolved,
        "base_url": None if arm.redact else arm.base_url,
        "redact": arm.redact,
    }
    return {
        "series": series,
        "arm": arm.name,
        "role": arm.role,
        "provider": arm.provider,
        "model": arm.model,
        "config": {key: value for key, value in config.items() if value is not None},
    }


def _insert(connection: Connection, *, into: Table, values: dict[str, Any]) -> int:
    key = connection.execute(insert(into).values(values)).inserted_primary_key
    assert key is not None
    return int(key[0])
