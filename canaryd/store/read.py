"""Named queries on plans, runs and decisions.

Each takes a connection of `Store.read`, so that several queries see one state of the store.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, and_, func, or_, select, true

from canaryd.errors import UsageError
from canaryd.records import Alarm, EarlyWarningDay, Run, RunEnd, RunOutcome, RunStart, Verdict
from canaryd.store import schema
from canaryd.store import schema_contract as contract
from canaryd.store.rows import PanelFiles, PanelItem, Series, StoredArm, StoredVerdict

_SERIES = [schema.series.c[name] for name in Series._fields]


def all_series(connection: Connection) -> tuple[Series, ...]:
    """Return every series, by name."""
    rows = connection.execute(select(*_SERIES).order_by(schema.series.c.name))
    return tuple(Series(**row) for row in rows.mappings())


def series_names(connection: Connection) -> tuple[str, ...]:
    """Return the name of every series, in order."""
    return tuple(connection.scalars(select(schema.series.c.name).order_by(schema.series.c.name)))


def series(connection: Connection, name: str) -> Series:
    """Return one series; raise UsageError for a name that is not registered."""
    row = connection.execute(select(*_SERIES).where(schema.series.c.name == name)).mappings().one_or_none()
    if row is None:
        raise UsageError(f"series {name!r} is not registered; run `canaryd register` or name another")
    return Series(**row)


def registration(connection: Connection, name: str) -> bytes:
    """Return the bytes of the registration file of a series; raise UsageError for an unknown one."""
    found = connection.scalar(select(schema.series.c.registration).where(schema.series.c.name == name))
    if found is None:
        raise UsageError(f"series {name!r} is not registered; run `canaryd register` or name another")
    return bytes(found)


def arms(connection: Connection, name: str) -> tuple[StoredArm, ...]:
    """Return the arms of a series as registered: the tracked one first, the others by name."""
    row = schema.arm.c
    rows = connection.execute(select(schema.arm).where(row.series == name).order_by(row.role != "tracked", row.arm))
    return tuple(StoredArm(each.arm, each.role, each.provider, each.model, each.config) for each in rows)


def panel(connection: Connection, digest: str) -> PanelFiles:
    """Return the files of a stored panel; raise KeyError for an unknown digest."""
    row = connection.execute(select(schema.panel).where(schema.panel.c.digest == digest)).mappings().one_or_none()
    if row is None:
        raise KeyError(digest)
    return PanelFiles(**row)


def panel_items(connection: Connection, digest: str) -> tuple[PanelItem, ...]:
    """Return the items of a stored panel in file order."""
    row = schema.panel_item.c
    columns = [row[name] for name in PanelItem._fields]
    rows = connection.execute(select(*columns).where(row.panel_digest == digest).order_by(row.ordinal))
    return tuple(PanelItem(**each) for each in rows.mappings())


def runs(connection: Connection, name: str, *, first: date | None = None, last: date | None = None) -> tuple[Run, ...]:
    """Return the runs of a series whose slot dates lie in [first, last], by date, arm and attempt."""
    row = schema.run_start.c
    query = _runs().where(row.series == name).order_by(row.slot_date, row.arm, row.attempt)
    if first is not None:
        query = query.where(row.slot_date >= first)
    if last is not None:
        query = query.where(row.slot_date <= last)
    return tuple(_run(each) for each in connection.execute(query))


def latest_run(
    connection: Connection, name: str, *, arm: str, outcome: Literal["any", "ended", "completed"] = "any"
) -> Run | None:
    """Return the run of an arm with the latest slot date and attempt: any, an ended or a completed one.

    A completed run that is set aside as a whole counts as none: nothing of it enters the analysis.
    """
    row = schema.run_start.c
    query = _runs().where(row.series == name, row.arm == arm).order_by(row.slot_date.desc(), row.attempt.desc())
    if outcome == "ended":
        query = query.where(schema.run_end.c.outcome.is_not(None))
    if outcome == "completed":
        note = schema.validity.c
        is_set_aside = select(note.validity_id).where(note.run_id == row.run_id).exists()
        query = query.where(schema.run_end.c.outcome == "completed", ~is_set_aside)
    found = connection.execute(query.limit(1)).one_or_none()
    return None if found is None else _run(found)


def latest_slot(connection: Connection, name: str) -> tuple[Run, ...]:
    """Return the runs of the latest slot of a series that has any, by arm and attempt."""
    row = schema.run_start.c
    newest = connection.scalar(select(func.max(row.slot_date)).where(row.series == name))
    return () if newest is None else runs(connection, name, first=newest, last=newest)


#: The outcomes of a run that was refused, by canaryd or by its provider.
_REFUSED: tuple[RunOutcome, ...] = ("refused", "config_error")


def refused_since(connection: Connection, name: str, *, arm: str) -> date | None:
    """Return the slot from which on every run of an arm was refused; None where the latest one was not."""
    start, outcome = schema.run_start.c, schema.run_end.c.outcome
    mine = select(start.run_id, start.slot_date).outerjoin_from(schema.run_start, schema.run_end)
    mine = mine.where(start.series == name, start.arm == arm)
    other = mine.where(or_(outcome.is_(None), outcome.not_in(_REFUSED))).subquery()
    last = connection.scalar(select(func.max(other.c.run_id))) or 0
    refused = mine.where(outcome.in_(_REFUSED), start.run_id > last).subquery()
    found: date | None = connection.scalar(select(func.min(refused.c.slot_date)))
    return found


def claimed_slots(connection: Connection, name: str) -> frozenset[tuple[str, date]]:
    """Return arm and date of every slot of a series that has a run."""
    row = schema.run_start.c
    query = select(row.arm, row.slot_date).where(row.series == name).distinct()
    return frozenset((each.arm, each.slot_date) for each in connection.execute(query))


def open_runs(connection: Connection, name: str) -> tuple[Run, ...]:
    """Return the runs of a series that have not ended, oldest first."""
    query = _runs().where(schema.run_start.c.series == name, schema.run_end.c.run_id.is_(None))
    return tuple(_run(each) for each in connection.execute(query.order_by(schema.run_start.c.run_id)))


def verdicts(
    connection: Connection, name: str, *, superseded: bool = False, newest: int | None = None
) -> tuple[StoredVerdict, ...]:
    """Return the verdicts of a series in force, by epoch and window: all or the `newest` so many.

    With `superseded` also those replaced since.
    """
    row, later = schema.verdict.c, schema.verdict.alias()
    query = select(schema.verdict).where(row.series == name)
    if not superseded:
        query = query.where(~select(later.c.verdict_id).where(later.c.supersedes == row.verdict_id).exists())
    order = [column.desc() for column in (row.epoch, row.window_index, row.verdict_id)]
    rows = connection.execute(query.order_by(*order).limit(newest)).all()
    return tuple(_verdict(each) for each in reversed(rows))


def last_verdicts(connection: Connection, name: str) -> tuple[StoredVerdict, ...]:
    """Return the verdict in force of the latest decided window of each epoch that has one, by epoch."""
    row, later = schema.verdict.c, schema.verdict.alias()
    after = and_(
        later.c.series == row.series,
        later.c.epoch == row.epoch,
        or_(later.c.window_index > row.window_index, later.c.supersedes == row.verdict_id),
    )
    query = select(schema.verdict).where(row.series == name, ~select(later.c.verdict_id).where(after).exists())
    return tuple(_verdict(each) for each in connection.execute(query.order_by(row.epoch)))


def latest_verdict(connection: Connection, name: str) -> StoredVerdict | None:
    """Return the verdict in force of the latest decided window of the latest epoch."""
    found = last_verdicts(connection, name)
    return found[-1] if found else None


def epoch_of_verdict(connection: Connection, verdict_id: int) -> int:
    """Return the epoch that a verdict belongs to."""
    row = schema.verdict.c
    return int(connection.execute(select(row.epoch).where(row.verdict_id == verdict_id)).scalar_one())


def alarms(connection: Connection, name: str) -> tuple[Alarm, ...]:
    """Return the transitions of a series' alarm state, oldest first; the last one is the current state."""
    row = schema.alarm.c
    rows = connection.execute(select(schema.alarm).where(row.series == name).order_by(row.alarm_id))
    return tuple(Alarm(each.series, each.state, each.since, each.verdict_id) for each in rows)


def early_warnings(
    connection: Connection,
    name: str,
    *,
    stream: Literal["score", "tokens", "difference"],
    newest_segment: bool = False,
) -> tuple[EarlyWarningDay, ...]:
    """Return the steps of one early-warning stream of a series, or of its newest segment, by segment and day."""
    row = schema.early_warning.c
    of_stream = and_(row.series == name, row.stream == stream)
    query = select(schema.early_warning).where(of_stream)
    if newest_segment:
        query = query.where(row.segment == select(func.max(row.segment)).where(of_stream).scalar_subquery())
    rows = connection.execute(query.order_by(row.segment, row.slot_date))
    return tuple(EarlyWarningDay(**each) for each in rows.mappings())


def early_warning_marks(
    connection: Connection, name: str, *, stream: Literal["score", "tokens", "difference"]
) -> tuple[EarlyWarningDay, ...]:
    """Return of one early-warning stream the steps that its state rests on: every alarm, and the last step."""
    row = schema.early_warning.c
    of_stream = and_(row.series == name, row.stream == stream)
    query = select(schema.early_warning).where(of_stream)
    last = query.order_by(row.segment.desc(), row.slot_date.desc()).limit(1)
    found = [EarlyWarningDay(**each) for each in connection.execute(query.where(row.alarm.is_(true()))).mappings()]
    found += [EarlyWarningDay(**each) for each in connection.execute(last).mappings()]
    marks = {(day.segment, day.slot_date): day for day in found}
    return tuple(marks[key] for key in sorted(marks))


def response_seen(connection: Connection, response_id: str) -> bool:
    """Whether a stored sample came with this response id."""
    row = schema.sample.c
    return connection.scalar(select(row.sample_id).where(row.response_id == response_id).limit(1)) is not None


def newest_sample_at(connection: Connection) -> datetime | None:
    """Return when the sample stored last had ended."""
    row = schema.sample.c
    newest = select(func.max(row.sample_id)).scalar_subquery()
    found: datetime | None = connection.scalar(select(row.ended_at).where(row.sample_id == newest))
    return found


def newest_known_at(connection: Connection) -> datetime | None:
    """Return the latest moment that the store tells of: a sample, a registration or first day, a decision."""
    series, note = schema.series.c, schema.validity.c
    registered, first = connection.execute(select(func.max(series.registered_at), func.max(series.start_date))).one()
    known = (
        newest_sample_at(connection),
        registered,
        None if first is None else datetime.combine(first, time(), UTC),
        connection.scalar(select(func.max(contract.deviation.c.at))),
        connection.scalar(select(func.max(note.at)).where(note.reason == "operator")),
    )
    return max((moment for moment in known if moment is not None), default=None)


def _runs() -> Select[Any]:
    end = schema.run_end.c
    start = [schema.run_start.c[name] for name in ("run_id", *RunStart.__slots__)]
    return select(*start, end.ended_at, end.outcome, end.reason).outerjoin_from(schema.run_start, schema.run_end)


def _run(row: Row[Any]) -> Run:
    values = row._mapping
    end = None if row.outcome is None else RunEnd(row.ended_at, row.outcome, row.reason)
    return Run(row.run_id, RunStart(**{name: values[name] for name in RunStart.__slots__}), end)


def _verdict(row: Row[Any]) -> StoredVerdict:
    values = {name: row._mapping[name] for name in Verdict.__slots__}
    return StoredVerdict(row.verdict_id, Verdict(**values | {"reasons": tuple(row.reasons)}))
