"""The states of the early warning and of the sentinels, from stored rows alone; nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Literal, TypeAlias

from canaryd.records import EarlyWarningDay
from canaryd.stats.watch_params import SentinelParams

EarlyWarningState: TypeAlias = Literal["warming_up", "ok", "alarm"]
SentinelState: TypeAlias = Literal["warming_up", "ok", "moved", "unjudged"]
SentinelSeriesState: TypeAlias = Literal["none", "warming_up", "ok", "moved", "collapsed", "unjudged"]


def early_warning_state(days: Sequence[EarlyWarningDay], *, decided_through: date | None) -> EarlyWarningState:
    """Return the state of one stream, its rows given in order.

    An alarm is latched until a window that contains it, or a later one, has its verdict: `decided_through` is the last
    day of the newest decided window. `warming_up` is the time in which no alarm is possible.
    """
    if any(row.alarm and (decided_through is None or row.slot_date > decided_through) for row in days):
        return "alarm"
    if not days or days[-1].alarm or days[-1].onset is None:
        return "warming_up"
    return "ok"


def sentinel_series_state(
    today: Mapping[str, SentinelState], *, before: Sequence[Mapping[str, SentinelState]], params: SentinelParams
) -> SentinelSeriesState:
    """Return the state of a series' sentinels in one slot; the gravest that applies.

    `before` holds the slots directly before today's, newest first; a missed slot is an empty mapping. Collapsed: enough
    sentinels moved in this slot, or the same one moved in `collapse_slots` consecutive slots.
    """
    if not today:
        return "none"
    moved = {name for name, state in today.items() if state == "moved"}
    together = len(moved) >= max(params.collapse_min_moved, params.collapse_min_share * len(today))
    recent = before[: params.collapse_slots - 1]
    lasting = len(recent) == params.collapse_slots - 1 and any(
        all(slot.get(name) == "moved" for slot in recent) for name in moved
    )
    if together or lasting:
        return "collapsed"
    gravest: tuple[SentinelState, ...] = ("moved", "unjudged", "warming_up")
    return next((state for state in gravest if state in today.values()), "ok")
