"""Which slots a series owes: slots are UTC dates, and a day that was not measured is a row with a reason.

`due_slots` decides and has no clock: whatever the clock did meanwhile (a step, a suspend, an outage of a month), it is
given the time and the stored runs, and the same rows at the same time give the same decision.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TypeAlias

from canaryd.config import Config
from canaryd.records import Run, RunOutcome
from canaryd.windows import utc_date

#: Outcomes that count as attempts. A run that was cut off (`abandoned`) goes on where it stopped, and one that was
#: `refused` asked nothing: neither uses an attempt up.
ATTEMPTS: frozenset[RunOutcome] = frozenset({"incomplete", "config_error"})
#: Outcomes that are not followed by another run at once.
BACKED_OFF: frozenset[RunOutcome] = ATTEMPTS | {"refused"}
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SlotPolicy:
    """When a slot is due (`due_minute` counts from 00:00 UTC), how long it may be caught up, and how often tried.

    `back_off` lies between the end of an attempt, or of a refusal, and the next; a run that is expected to take
    `expected` is not started where it would not end in time. A slot that is late by less than `back_off` is started
    whatever is expected: otherwise one slow day would end the series.
    """

    due_minute: int
    catch_up: timedelta
    attempts: int
    back_off: timedelta = timedelta(minutes=15)
    expected: timedelta = timedelta(0)

    def cutoff(self, slot_date: date) -> datetime:
        """Return the first moment at which a slot is not started any more."""
        due, midnight = due_at(slot_date, self.due_minute), due_at(slot_date, 0) + DAY
        return max(min(midnight, due + self.catch_up) - self.expected, min(midnight, due + self.back_off))


def policy_of(config: Config) -> SlotPolicy:
    """Return the schedule of a configuration; how long a run takes is what its store knows."""
    schedule = config.schedule
    return SlotPolicy(schedule.due_minute, timedelta(hours=schedule.catch_up_hours), schedule.attempts)


@dataclass(frozen=True, slots=True)
class Start:
    """The slot is owed now; `late` is how long ago it became due."""

    slot_date: date
    late: timedelta


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is owed before `until`."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Miss:
    """The day of a slot is over, and these arms have no run in it: it is stored as missed, with the reason."""

    slot_date: date
    arms: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Today's slot is not measured, or no further, for this reason."""

    slot_date: date
    reason: str


Decision: TypeAlias = Miss | Start | Wait | Refuse


@dataclass(frozen=True, slots=True)
class Owing:
    """Who owes slots: the arms of a series, from its first slot date (or the first that is not closed yet) on."""

    arms: Collection[str]
    first: date


def due_slots(runs: Sequence[Run], now: datetime, *, owing: Owing, policy: SlotPolicy) -> tuple[Decision, ...]:
    """Return what is to be done at `now`: the past slots to close as missed, then one Start, Wait or Refuse for today.

    `runs` are the stored runs of the series from `owing.first` on. Only today's slot is ever started, nothing is
    back-filled, and a slot that is closed stays closed, even where the clock is set back into it.
    """
    today, by_date = utc_date(now), _by_date(runs)
    return (*_missed(by_date, owing, today=today), _today(by_date, now, owing=owing, policy=policy))


def next_due(decision: Decision, now: datetime, *, owing: Owing, policy: SlotPolicy) -> datetime:
    """Return when the next slot is due; it lies in the past while that slot is owed and not begun."""
    if isinstance(decision, Wait):
        return decision.until
    today = max(utc_date(now), owing.first)
    return due_at(today if isinstance(decision, Start) else today + DAY, policy.due_minute)


def _today(by_date: Mapping[date, Sequence[Run]], now: datetime, *, owing: Owing, policy: SlotPolicy) -> Decision:
    today = max(utc_date(now), owing.first)
    due, runs = due_at(today, policy.due_minute), by_date.get(today, ())
    if (closed := _why_closed(by_date, today)) is not None:
        return Refuse(today, closed)
    if {run.start.arm for run in runs if _outcome(run) == "completed"} >= set(owing.arms):
        return Wait(due_at(today + DAY, policy.due_minute))
    if now < due:
        return Wait(due)
    if (exhausted := _why_exhausted(runs, now, owing=owing, cutoff=policy.cutoff(today), policy=policy)) is not None:
        return Refuse(today, exhausted)
    failed = [run.end.ended_at for run in runs if run.end and run.end.outcome in BACKED_OFF]
    again = max(failed) + policy.back_off if failed else due
    return Wait(again) if now < again else Start(today, now - due)


def _why_closed(by_date: Mapping[date, Sequence[Run]], today: date) -> str | None:
    later = max(by_date, default=today)
    if later > today:
        return f"the clock stands before the slot of {later}, which has runs already"
    if any(_outcome(run) == "missed" for run in by_date.get(today, ())):
        return "the slot was closed as missed"
    return None


def _why_exhausted(
    runs: Sequence[Run], now: datetime, *, owing: Owing, cutoff: datetime, policy: SlotPolicy
) -> str | None:
    tried = _attempts(runs)
    if max((sum(run.start.arm == arm for run in tried) for arm in owing.arms), default=0) >= policy.attempts:
        return f"{policy.attempts} attempts did not complete it; the last: {_reason(tried[-1])}"
    if now >= cutoff:
        return f"it could be started until {cutoff:%H:%M} UTC, so that it ends on its own day"
    return None


def _attempts(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if _outcome(run) in ATTEMPTS]


def _missed(by_date: Mapping[date, Sequence[Run]], owing: Owing, *, today: date) -> tuple[Miss, ...]:
    misses = []
    for slot_date in (owing.first + timedelta(days=n) for n in range((today - owing.first).days)):
        ran = {run.start.arm for run in by_date.get(slot_date, ())}
        arms = tuple(sorted(set(owing.arms) - ran))
        if arms:
            misses.append(Miss(slot_date, arms, "no process ran it before its UTC day ended"))
    return tuple(misses)


def _by_date(runs: Sequence[Run]) -> dict[date, list[Run]]:
    by_date: dict[date, list[Run]] = {}
    for run in runs:
        by_date.setdefault(run.start.slot_date, []).append(run)
    return by_date


def _outcome(run: Run) -> RunOutcome | None:
    return None if run.end is None else run.end.outcome


def _reason(run: Run) -> str:
    assert run.end is not None
    return run.end.reason


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
