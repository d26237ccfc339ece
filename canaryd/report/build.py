"""What a report shows, read off the stored verdicts; every number of a verdict was computed before it came here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from canaryd.analysis.with_invalid import WithInvalid
from canaryd.judging import JudgeDay
from canaryd.prereg import Prereg
from canaryd.records import EarlyWarningDay, Verdict
from canaryd.report.accounting import ArmAccount
from canaryd.report.where import Whereabouts
from canaryd.store.epochs import Deviation
from canaryd.store.ledger import Head
from canaryd.store.notes import SetAside
from canaryd.store.rows import Series, StoredArm, StoredVerdict
from canaryd.store.studies import RegistrationDocument
from canaryd.wording import DIRECTIONS


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval, as fractions; the bounds are None where there is no interval."""

    value: float
    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class WindowPoint:
    """One decided window of one arm: its days, the delta and the relative change of tokens."""

    label: str
    first: date
    last: date
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
class Decided:
    """A deviation with the digest of the ledger's entry that covers it."""

    deviation: Deviation
    digest: str


@dataclass(frozen=True, slots=True)
class SeriesReport:
    """One series as a report shows it; the tracked arm comes first.

    `warnings` are the early warning's rows by stream, `where` is None before the first decided window, `format_moves`
    are what the latest re-grading of all replies says of the verdicts, `judge` are its slots, none without one.
    `set_aside_days` are by arm how many days of the latest decided window and of its baseline are set aside as a whole;
    `with_invalid` are the windows that rest on invalid samples with those counted, None where nobody asked.
    """

    headline: str
    series: Series
    prereg: Prereg
    arms: tuple[ArmCurve, ...]
    verdicts: tuple[StoredVerdict, ...]
    events: tuple[Event, ...]
    warnings: Mapping[str, Sequence[EarlyWarningDay]]
    where: Whereabouts | None
    accounts: tuple[ArmAccount, ...]
    document: RegistrationDocument | None
    deviations: tuple[Decided, ...]
    set_aside: tuple[SetAside, ...]
    coincidences: tuple[Event, ...]
    format_moves: tuple[str, ...]
    judge: tuple[JudgeDay, ...]
    ledger: Head | None
    set_aside_days: Mapping[str, tuple[int, int]]
    with_invalid: tuple[WithInvalid, ...] | None

    @property
    def name(self) -> str:
        """The name of the series."""
        return self.series.name

    @property
    def interval(self) -> str:
        """What every interval is called."""
        return f"{100 * self.prereg.rule.estimate.confidence:g} % interval"

    @property
    def min_effect(self) -> float:
        """The smallest delta that counts, as a fraction."""
        return self.prereg.rule.min_effect


def build_curve(arm: StoredArm, verdicts: Sequence[StoredVerdict], *, daily: Sequence[tuple[date, float]]) -> ArmCurve:
    """Return what is drawn of one arm of the decided windows."""
    clauses: list[Mapping[str, Any]] = [stored.verdict.clauses for stored in verdicts]
    windows = [
        _point(arm, one, label=window_label(stored.verdict))
        for stored, one in zip(verdicts, clauses, strict=True)
        if arm.name in one["arms"]
    ]
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


def window_label(verdict: Verdict) -> str:
    """Return what a window is called in a report; those of the first epoch go without the epoch's number."""
    epoch = f" of epoch {verdict.epoch}" if verdict.epoch > 1 else ""
    return f"window {verdict.window_index}{epoch}"


def _events_of(verdict: Verdict) -> Iterator[Event]:
    clauses: Mapping[str, Any] = verdict.clauses
    known = date.fromisoformat(clauses["last"]) + timedelta(days=1)
    for arm, beside in clauses["arms"].items():
        tokens = beside["tokens"]
        if tokens["state"] in ("increase", "decrease"):
            shift = f"token shift of {arm} in {window_label(verdict)}: {100 * tokens['change']:+z.0f} %"
            yield Event(known, shift)
    if verdict.kind == "change":
        declared = DIRECTIONS[verdict.direction or "down"]
        yield Event(known, f"declared {declared} in {window_label(verdict)}, attribution: {verdict.attribution}")


def _point(arm: StoredArm, clauses: Mapping[str, Any], *, label: str) -> WindowPoint:
    window = clauses["window"] if arm.role == "tracked" else clauses["controls"][arm.name]["window"]
    tokens = clauses["arms"][arm.name]["tokens"]
    return WindowPoint(
        label=label,
        first=date.fromisoformat(clauses["first"]),
        last=date.fromisoformat(clauses["last"]),
        delta=_interval(window["estimate"]["delta"], window["estimate"].get("ci")),
        tokens=_interval(tokens["change"], tokens["ci"]),
    )


def _interval(value: float | None, bounds: Sequence[float] | None) -> Interval | None:
    if value is None:
        return None
    lower, upper = bounds or (None, None)
    return Interval(value, lower, upper)
