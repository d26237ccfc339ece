"""Named queries on the notes that take runs and samples out of the analysis."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, or_, select

from canaryd.store import schema


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
