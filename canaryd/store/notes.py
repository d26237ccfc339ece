"""Named queries on the notes that take runs and samples out of the analysis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, or_, select

from canaryd.store import schema
from canaryd.store.epochs import deviations


class SetAside(NamedTuple):
    """A run that a person took out of the analysis, when, and why."""

    slot_date: date
    arm: str
    reason: str
    at: datetime


def set_aside_by_hand(connection: Connection, series: str) -> tuple[SetAside, ...]:
    """Return the runs of a series that a person took out of the analysis, by slot date and arm."""
    note, start = schema.validity.c, schema.run_start.c
    query = (
        select(start.slot_date, start.arm, note.detail, note.at)
        .join_from(schema.validity, schema.run_start)
        .where(start.series == series, note.reason == "operator")
        .order_by(start.slot_date, start.arm)
    )
    return tuple(SetAside(*row) for row in connection.execute(query))


def days_set_aside(connection: Connection, series: str) -> dict[str, tuple[date, ...]]:
    """Return by arm the slot dates of which samples are stored and not one of them enters an analysis, ascending."""
    noted = notes_by_date(connection, series)
    if not noted:
        return {}
    row = schema.effective_sample.c
    query = (
        select(row.arm, row.slot_date)
        .where(row.series == series, row.slot_date.in_(sorted(noted)))
        .group_by(row.arm, row.slot_date)
        .having(func.count(row.invalid_reason) == func.count())
        .order_by(row.arm, row.slot_date)
    )
    days: dict[str, list[date]] = defaultdict(list)
    for arm, slot_date in connection.execute(query):
        days[arm].append(slot_date)
    return {arm: tuple(found) for arm, found in days.items()}


def slots_without_canary(connection: Connection, series: str) -> tuple[date, ...]:
    """Return the slot dates, ascending, in which something that counts was asked without the trivial task before it.

    An attempt of which nothing counts any more, because it was set aside or asked again, is none.
    """
    notes = deviations(connection, series, kind="no_canary")
    if not notes:
        return ()
    run, sample = schema.run_start.c, schema.effective_sample.c
    of_slots = run.series == series, run.slot_date.in_(sorted({note.slot_date for note in notes}))
    begun = select(run.slot_date, run.started_at).where(*of_slots).distinct()
    counts = begun.join(schema.effective_sample, sample.run_id == run.run_id).where(sample.invalid_reason.is_(None))
    starts, counting = ([(each.slot_date, each.started_at) for each in connection.execute(q)] for q in (begun, counts))
    # The note is written right after the claim that it is about, whose runs all begin at one moment.
    claims = {
        max(((day, at) for day, at in starts if day == note.slot_date and at <= note.at), default=None)
        for note in notes
    }
    return tuple(sorted({claim[0] for claim in claims if claim in counting}))


def invalid_runs(connection: Connection, run_ids: Collection[int]) -> dict[int, str]:
    """Return the reason of each of the given runs that is marked invalid."""
    row = schema.validity.c
    query = select(row.run_id, row.reason).where(row.run_id.in_(sorted(run_ids))).order_by(row.validity_id.desc())
    return {each.run_id: each.reason for each in connection.execute(query)}


def set_aside_later(connection: Connection, series: str) -> tuple[tuple[date, date], ...]:
    """Return the slot dates that were set aside when they may have been published, each with the day of the note.

    That is after the slot's day, or by a person on that very day; what a slot's own samples say is noted on its day
    before anything is made of it. Stretches that overlap are merged.
    """
    note, start, sample = schema.validity.c, schema.run_start.c, schema.sample.c
    query = (
        select(start.slot_date, note.at, note.reason)
        .select_from(schema.validity)
        .outerjoin(schema.sample, sample.sample_id == note.sample_id)
        .join(schema.run_start, or_(start.run_id == note.run_id, start.run_id == sample.run_id))
        .where(start.series == series)
        .order_by(start.slot_date)
    )
    merged: list[tuple[date, date]] = []
    for slot_date, at, reason in connection.execute(query):
        is_later = at.date() > slot_date or (reason == "operator" and at.date() == slot_date)
        if merged and slot_date <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], at.date()))
        elif is_later:
            merged.append((slot_date, at.date()))
    return tuple(merged)


def notes_by_date(connection: Connection, series: str) -> dict[date, int]:
    """Return how many notes concern each slot date of a series that has any, whatever run or sample they name."""
    note, start, sample = schema.validity.c, schema.run_start.c, schema.sample.c
    query = (
        select(start.slot_date, func.count(note.validity_id).label("n"))
        .select_from(schema.validity)
        .outerjoin(schema.sample, sample.sample_id == note.sample_id)
        .join(schema.run_start, or_(start.run_id == note.run_id, start.run_id == sample.run_id))
        .where(start.series == series)
        .group_by(start.slot_date)
    )
    return {each.slot_date: each.n for each in connection.execute(query)}
