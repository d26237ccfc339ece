"""What there is to tell of a series: transitions of its alarm state and of its sentinels, warnings, dead runs.

Each notice has an id within its series that never changes, so that a restart or an import tells nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from sqlalchemy import Connection, func, select

from canaryd import prereg as registration
from canaryd.prereg import Prereg
from canaryd.records import JsonValue
from canaryd.stats.watch_state import SentinelState, sentinel_series_state
from canaryd.store import read, schema, sentinels
from canaryd.store.deliveries import deliveries
from canaryd.windows import utc_date

Kind: TypeAlias = Literal["alarm", "sentinels", "early_warning", "zero_pass"]
#: What is older than this when it can first be told would only confuse; the alarm state that holds is told however old.
TOLD_WITHIN = timedelta(days=3)
_DAY = timedelta(days=1)


class Notice(NamedTuple):
    """One thing to tell: what it is, since when, and what was before; `figures` are what is known of it by name."""

    id: str
    series: str
    kind: Kind
    state: str
    before: str | None
    since: datetime
    verdict_id: int | None = None
    figures: Mapping[str, JsonValue] = MappingProxyType({})


def owed(connection: Connection, series: str, *, now: datetime) -> tuple[Notice, ...]:
    """Return the notices of a series that nothing has become of yet, oldest first."""
    told, protocol = deliveries(connection, series), _protocol(connection, series)
    first = now - TOLD_WITHIN
    found = [
        *_alarms(connection, series, first=first),
        *_sentinels(connection, series, protocol=protocol, first=utc_date(first)),
        *_early_warnings(connection, series, protocol=protocol, first=utc_date(first)),
        *_zero_passes(connection, series, first=first),
    ]
    return tuple(sorted((notice for notice in found if notice.id not in told), key=lambda notice: notice.since))


def alarm_id(number: int) -> str:
    """Return the id of the notice of a transition of the alarm state; the first of a series is number 1."""
    return f"alarm/{number}"


def _protocol(connection: Connection, series: str) -> Prereg:
    return registration.parse(read.registration(connection, series), source=f"registration of {series}")


def _alarms(connection: Connection, series: str, *, first: datetime) -> Iterator[Notice]:
    before, transitions = "warming_up", read.alarms(connection, series)
    for number, alarm in enumerate(transitions, start=1):
        if alarm.since >= first or number == len(transitions):
            yield Notice(alarm_id(number), series, "alarm", alarm.state, before, alarm.since, alarm.verdict_id)
        before = alarm.state


def _sentinels(connection: Connection, series: str, *, protocol: Prereg, first: date) -> Iterator[Notice]:
    """Yield the slots in which the state of the sentinels entered or left `moved` or `collapsed`."""
    params, slots = protocol.sentinels, dict[date, dict[str, SentinelState]]()
    # A day more than is told of, so that there is a state before.
    for day in sentinels.days(connection, series, first=first - params.collapse_slots * _DAY):
        slots.setdefault(day.slot_date, {})[day.item_id] = day.state
    before = "ok"
    for slot_date, today in slots.items():
        earlier = [slots.get(slot_date - n * _DAY, {}) for n in range(1, params.collapse_slots)]
        state = sentinel_series_state(today, before=earlier, params=params)
        if slot_date >= first and state != before and {state, before} & {"moved", "collapsed"}:
            moved = sorted(item for item, each in today.items() if each == "moved")
            figures: dict[str, JsonValue] = {"slot_date": slot_date.isoformat(), "moved": [*moved]}
            since = datetime.combine(slot_date, time(), UTC)
            yield Notice(f"sentinels/{slot_date}", series, "sentinels", state, before, since, figures=figures)
        before = state


def _early_warnings(connection: Connection, series: str, *, protocol: Prereg, first: date) -> Iterator[Notice]:
    for stream in protocol.early_warning.streams:
        for day in read.early_warnings(connection, series, stream=stream):
            if day.alarm and day.slot_date >= first:
                figures: dict[str, JsonValue] = {
                    "slot_date": day.slot_date.isoformat(),
                    "stream": stream,
                    "capital": day.capital,
                    "threshold": day.threshold,
                }
                since = datetime.combine(day.slot_date, time(), UTC)
                name = f"early_warning/{stream}/{day.slot_date}"
                yield Notice(name, series, "early_warning", "alarm", None, since, figures=figures)


def _zero_passes(connection: Connection, series: str, *, first: datetime) -> Iterator[Notice]:
    """Yield the slots of the tracked arm that were set aside because not one answer passed."""
    start, note, arm = schema.run_start.c, schema.validity.c, schema.arm.c
    query = (
        select(start.slot_date, func.min(note.at).label("at"))
        .select_from(schema.validity)
        .join(schema.run_start, start.run_id == note.run_id)
        .join(schema.arm, (arm.series == start.series) & (arm.arm == start.arm))
        .where(start.series == series, arm.role == "tracked", note.reason == "zero_pass_all", note.at >= first)
        .group_by(start.slot_date)
        .order_by(start.slot_date)
    )
    for slot in connection.execute(query):
        figures: dict[str, JsonValue] = {"slot_date": slot.slot_date.isoformat()}
        yield Notice(f"zero_pass/{slot.slot_date}", series, "zero_pass", "zero_pass", None, slot.at, figures=figures)
