"""Which slots a series owes: slots are UTC dates, and a day that was not measured is a row with a reason."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta


def due_at(slot_date: date, due_minute: int) -> datetime:
    """Return the aware UTC time at which a slot is due (`due_minute` counts from 00:00 UTC).

    >>> due_at(date(2027, 3, 28), 150).isoformat()
    '2027-03-28T02:30:00+00:00'
    """
    return datetime.combine(slot_date, time(), UTC) + timedelta(minutes=due_minute)


def unmeasured_slots(first: date, *, today: date, claimed: Collection[date]) -> tuple[date, ...]:
    """Return the slot dates from `first` to yesterday that nobody claimed, oldest first.

    >>> unmeasured_slots(date(2027, 1, 1), today=date(2027, 1, 4), claimed={date(2027, 1, 2)})
    (datetime.date(2027, 1, 1), datetime.date(2027, 1, 3))
    """
    days = (today - first).days
    dates = (first + timedelta(days=n) for n in range(days))
    return tuple(day for day in dates if day not in claimed)
