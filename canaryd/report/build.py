"""From stored verdicts and daily tallies to what a report shows; every number was computed before it came here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from canaryd.records import EarlyWarningDay, Verdict
from canaryd.store.rows import StoredArm, StoredVerdict


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval, as fractions; the bounds are None where there is no interval."""

    value: float
    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class WindowPoint:
    """One decided window of one arm: its middle day, the delta and the relative change of tokens."""

    middle: date
    delta: Interval | None
    tokens: Interval | None


@dataclass(frozen=True, slots=True)
class ArmCurve:
    """What is drawn of one arm: daily mean scores and its windows."""

    arm: str
    role: str
    model: str
    daily: Sequence[tuple[date, float]]
    windows: Sequence[WindowPoint]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened on a day, as a sentence."""

    day: date
    sentence: str


@dataclass(frozen=True, slots=True)
class SeriesReport:
    """One series as a report shows it; `min_effect` is a fraction."""

    name: str
    headline: str
    min_effect: float
    arms: tuple[ArmCurve, ...]
    events: tuple[Event, ...]


def build_curve(arm: StoredArm, verdicts: Sequence[StoredVerdict], *, daily: Sequence[tuple[date, float]]) -> ArmCurve:
    """Return what is drawn of one arm of the decided windows."""
    clauses: list[Mapping[str, Any]] = [stored.verdict.clauses for stored in verdicts]
    windows = [_point(arm, one) for one in clauses if arm.name in one["arms"]]
    return ArmCurve(arm.name, arm.role, arm.model, daily, windows)


def build_events(
    verdicts: Sequence[StoredVerdict], warnings: Mapping[str, Sequence[EarlyWarningDay]]
) -> tuple[Event, ...]:
    """Return early warnings, token shifts and changes in the order in which they could be known."""
    events = [
        Event(row.slot_date, f"early warning on the {stream} stream (most likely first changed day {row.onset})")
        for stream, rows in warnings.items()
        for row in rows
        if row.alarm
    ]
    for stored in verdicts:
        events += _events_of(stored.verdict)
    return tuple(sorted(events, key=lambda event: event.day))


def _events_of(verdict: Verdict) -> Iterator[Event]:
    clauses: Mapping[str, Any] = verdict.clauses
    known = date.fromisoformat(clauses["last"]) + timedelta(days=1)
    for arm, beside in clauses["arms"].items():
        tokens = beside["tokens"]
        if tokens["state"] in ("increase", "decrease"):
            shift = f"token shift of {arm} in window {verdict.window_index}: {100 * tokens['change']:+.0f} %"
            yield Event(known, shift)
    if verdict.kind == "change":
        declared = "regression" if verdict.direction == "down" else "improvement"
        yield Event(known, f"declared {declared} in window {verdict.window_index}, attribution: {verdict.attribution}")


def _point(arm: StoredArm, clauses: Mapping[str, Any]) -> WindowPoint:
    first, last = (date.fromisoformat(clauses[end]) for end in ("first", "last"))
    window = clauses["window"] if arm.role == "tracked" else clauses["controls"][arm.name]["window"]
    tokens = clauses["arms"][arm.name]["tokens"]
    return WindowPoint(
        middle=first + (last - first) / 2,
        delta=_interval(window["estimate"]["delta"], window["estimate"].get("ci")),
        tokens=_interval(tokens["change"], tokens["ci"]),
    )


def _interval(value: float | None, bounds: Sequence[float] | None) -> Interval | None:
    if value is None:
        return None
    lower, upper = bounds or (None, None)
    return Interval(value, lower, upper)
