"""The status for a person. No sentence gives a cause that was not measured, and none gives advice about the model."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from canaryd.status.model import ArmFigures, SeriesStatus, Status, StreamStatus, WindowFigures

_MARKS = {"ok": "●", "warming_up": "○", "not_evaluable": "!"}
_DIRECTIONS = {"down": "regression", "up": "improvement"}
_ATTRIBUTIONS = {
    "model": "the model under this alias likely changed; the control did not move alike",
    "platform": "the control moved as well: the platform or the harness likely changed",
    "unattributed": "the control cannot say whether the model or the platform changed",
}
_INDENT = " " * 13


def as_text(status: Status) -> str:
    """Return the status as lines for a terminal, without colour and without a trailing newline."""
    clock = f"   demo clock {_moment(status.now)}" if status.clock == "demo" else ""
    lines = [f"● canaryd {status.version}   store {status.store}{clock}"]
    for series in status.series:
        lines += ["", *_series(series, status.now)]
    return "\n".join(lines)


def sentence_of(series: SeriesStatus) -> str:
    """Return the headline of one series: what is declared, or how large a change could have gone unseen."""
    window = series.window
    if series.stale and (window is None or window.verdict != "change"):
        since = f"since {_moment(series.last_success)}" if series.last_success else "since the series began"
        return f"{series.name}: stale, no whole day was measured {since}"
    if window is None:
        return f"{series.name}: no window is decided yet ({series.phase})"
    tracked = window.arms[0]
    if window.verdict == "change":
        declared = _DIRECTIONS[window.direction or "down"]
        call = _ATTRIBUTIONS[window.attribution or "unattributed"]
        return f"{series.name}: declared {declared} of {points(tracked.delta)} in two windows; {call}"
    if window.verdict == "no_change_detected":
        mde = (
            f"; a change of {points(window.mde, signed=False)} would have been detected in 80 % of cases"
            if window.mde
            else ""
        )
        return f"{series.name}: no change detected, delta {points(tracked.delta)}{mde}"
    if window.verdict == "insufficient_data":
        return f"{series.name}: one window is decided, the rule needs two ({series.phase})"
    return f"{series.name}: window {window.index} could not be judged ({', '.join(window.reasons)})"


def _smallest(mde: float | None) -> str:
    return f"; the smallest change that is likely to be detected is {points(mde, signed=False)}" if mde else ""


def points(value: float | None, *, signed: bool = True) -> str:
    """Return a fraction in points of score.

    >>> points(-0.0415), points(0.0415, signed=False), points(None)
    ('-4.2 points', '4.2 points', 'unknown')
    """
    if value is None:
        return "unknown"
    return f"{100 * value:{'+' if signed else ''}.1f} points"


def _series(series: SeriesStatus, now: datetime) -> Iterator[str]:
    mark = "!" if series.stale else _MARKS.get(series.state, "×")
    yield f"{mark} {series.name:<10} {series.state.upper()} since {series.since.date()}   {series.phase}"
    yield f"{_INDENT}{sentence_of(series).partition(': ')[2]}"
    if series.window:
        yield from _window(series.window, series.min_effect)
    for stream in series.early_warnings:
        yield f"{_INDENT}{_stream(stream)}"
    for run in series.last_runs:
        if run.outcome != "completed":
            yield f"{_INDENT}{run.arm}: the run of {run.slot_date} ended {run.outcome}: {run.reason}"
    ago = f" ({_span(now - series.last_success)} ago)" if series.last_success else ""
    stale = "   STALE" if series.stale else ""
    last = _moment(series.last_success) if series.last_success else "never"
    yield f"{_INDENT}last success {last}{ago}{stale}   next run {_moment(series.next_run)}"


def _window(window: WindowFigures, min_effect: float) -> Iterator[str]:
    yield (
        f"{_INDENT}window {window.index} ({window.first} to {window.last})   minimum effect "
        f"{points(min_effect, signed=False)}   MDE of the rule {points(window.mde, signed=False)}"
    )
    for arm in window.arms:
        yield f"{_INDENT}{_arm(arm, window.panel_items)}"
    if window.reasons:
        yield f"{_INDENT}not evaluable: {', '.join(window.reasons)}"


def _arm(arm: ArmFigures, panel_items: int) -> str:
    note = "" if arm.status == "ok" else f"   [{arm.status}]"
    head = f"{arm.arm} ({arm.role})".ljust(20)
    delta = f"delta {points(arm.delta)} {_interval(arm.ci_lower, arm.ci_upper)}".ljust(40)
    headroom = f"   headroom {arm.headroom}" if arm.headroom not in (None, "ok") else ""
    outcomes = "   OUTCOME RATE MOVED" if arm.outcome_rate_state == "moved" else ""
    return f"{head} {delta} items {arm.pairs}/{panel_items}   {_tokens(arm)}{outcomes}{headroom}{note}"


def _interval(lower: float | None, upper: float | None) -> str:
    return "" if lower is None or upper is None else f"[{100 * lower:+.1f}, {100 * upper:+.1f}]"


def _tokens(arm: ArmFigures) -> str:
    if arm.token_change is None:
        return "tokens unknown"
    moved = f" {arm.token_state.upper()}" if arm.token_state in ("increase", "decrease") else ""
    return f"tokens {100 * arm.token_change:+.0f} % {_interval(arm.token_ci_lower, arm.token_ci_upper)}{moved}"


def _stream(stream: StreamStatus) -> str:
    text = (
        f"early warning {stream.stream:<10} {stream.state:<10} capital {stream.capital:.3g} of {stream.threshold:.0f}"
    )
    if stream.alarmed_on is None:
        return text
    return f"{text}   alarmed on {stream.alarmed_on}" + (
        f", most likely changed on {stream.onset}" if stream.onset else ""
    )


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%MZ}"


def _span(span: timedelta) -> str:
    hours = int(span.total_seconds() // 3600)
    return f"{hours} h" if hours < 72 else f"{hours // 24} days"
