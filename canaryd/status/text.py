"""The status for a person. No sentence gives a cause that was not measured, and none gives advice about the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from canaryd.runner.validity import SET_ASIDE
from canaryd.status.judge import judge_banner, judge_lines
from canaryd.status.live import Live, LiveSeries
from canaryd.status.model import (
    ArmFigures,
    BudgetLine,
    SeriesStatus,
    Status,
    StreamStatus,
    WindowFigures,
)
from canaryd.status.remedies import remedy
from canaryd.wording import (
    DIRECTIONS,
    counted,
    dated,
    days_set_aside,
    decided,
    estimate_status,
    interval,
    points,
)

if TYPE_CHECKING:
    from canaryd.analysis.with_invalid import WithInvalid

_MARKS = {"ok": "●", "warming_up": "○", "not_evaluable": "!"}
_ATTRIBUTIONS = {
    "model": "the model under this alias likely changed; the control did not move alike",
    "platform": "the control moved as well: the platform or the harness likely changed",
    "unattributed": "the control cannot say whether the model or the platform changed",
}
#: What becomes of a run that a process left open.
_GONE = "`canaryd run` or the daemon's next tick closes it, and the same day goes on where it stopped"
_INDENT = " " * 13


def as_text(status: Status, live: Live | None = None) -> str:
    """Return the status as lines for a terminal, without colour and without a trailing newline.

    `live` is what the daemon was asked for; without it nothing is said of the daemon.
    """
    clock = f"   demo clock {_moment(status.now)}" if status.clock == "demo" else ""
    daemon = "" if live is None else f"   {_daemon(live)}"
    lines = [f"● canaryd {status.version}{daemon}   store {status.store}   schema ok{clock}"]
    if live is not None:
        lines += [f"! [{table}] was not copied: {why}" for table, why in sorted(live.copies.items())]
    for series in status.series:
        lines += ["", *_series(series, status.now)]
        if live is not None and (one := live.of(series.name)) is not None:
            lines += [f"{_INDENT}{_live(one, series.name)}"]
    return "\n".join(lines)


def _daemon(live: Live) -> str:
    if live.running_since is None:
        return f"daemon unknown: {live.unknown} at {live.address}"
    return f"running since {_moment(live.running_since)} (pid {live.pid})"


def _live(one: LiveSeries, name: str) -> str:
    command = remedy(one.blocked, series=name) if one.blocked else None
    return f"daemon: {one.state}{f'   run: {command}' if command else ''}"


def with_invalid_text(found: Sequence[WithInvalid]) -> str:
    """Return what would have been said with the invalid samples counted: a heading and one line per series."""
    return "\n".join(
        ["with invalid samples counted (no verdict, nothing is stored of this)", *map(_with_invalid, found)]
    )


def _with_invalid(one: WithInvalid) -> str:
    if one.window is None:
        return f"  {one.series}: no window is decided yet"
    if one.verdict is None:
        return f"  {one.series}: window {one.window} rests on no invalid sample, nothing would be otherwise"
    counted = ", ".join(f"{count} {reason}" for reason, count in one.invalid.items())
    verdict = decided(one.verdict, one.direction, attribution=one.attribution, reasons=one.reasons)
    delta = f"delta {points(one.delta)} {interval(one.ci_lower, one.ci_upper)}".rstrip()
    return f"  {one.series}: window {one.window} would be {verdict}, {delta}; invalid samples: {counted}"


def sentence_of(series: SeriesStatus) -> str:
    """Return the headline of one series: what is declared, or how large a change could have gone unseen."""
    window = series.window if series.window and series.window.epoch == series.epoch else None
    if window is not None and window.verdict == "change":
        declared = DIRECTIONS[window.direction or "down"]
        call = _ATTRIBUTIONS[window.attribution or "unattributed"]
        return f"{series.name}: declared {declared} of {points(window.arms[0].delta)} in two windows; {call}"
    if series.carried:
        declared = DIRECTIONS[series.carried.direction or "down"]
        return (
            f"{series.name}: carried {declared}, declared in window {series.carried.window} of epoch "
            f"{series.carried.epoch}, which has ended; not settled"
        )
    if series.stale:
        since = f"since {_moment(series.last_success)}" if series.last_success else "since the series began"
        return f"{series.name}: stale, no whole day was measured {since}"
    if window is None:
        return f"{series.name}: no window is decided yet ({series.phase})"
    return f"{series.name}: {_without_change(window, series.phase)}"


def _without_change(window: WindowFigures, phase: str) -> str:
    if window.state in ("hit_down", "hit_up") and window.verdict in ("no_change_detected", "insufficient_data"):
        hit = f"window {window.index} alone is a hit of {points(window.arms[0].delta)}"
        return f"no change declared so far: {hit}, and a change takes two windows in a row to the same side"
    if window.verdict == "no_change_detected":
        mde = (
            f"; a change of {points(window.mde, signed=False)} would have been detected in 80 % of cases"
            if window.mde
            else ""
        )
        return f"no change detected, delta {points(window.arms[0].delta)}{mde}{_headroom(window)}"
    if window.verdict == "insufficient_data":
        return f"one window is decided, the rule needs two ({phase})"
    return f"window {window.index} could not be judged ({', '.join(window.reasons)})"


def sentinel_sentences(series: SeriesStatus) -> list[str]:
    """Return one sentence for each sentinel that moved in the slot judged last, and one when they collapsed."""
    sentinels = series.sentinels
    if sentinels is None:
        return []
    sentences = [
        f"the model under this alias likely changed - the sentinel {one.item_id} moved from {_mean(one.baseline_mean)} "
        f"to {_mean(one.today_mean)}, beyond the noise of this item ({_mean(one.low)}-{_mean(one.high)} across "
        f"{one.baseline_samples} samples)"
        for one in sentinels.each
        if one.state == "moved"
    ]
    return [*sentences, *(["the sentinels collapsed"] if sentinels.state == "collapsed" else [])]


def acknowledged_sentence(series: SeriesStatus) -> str | None:
    """Return until when somebody has silenced the state of a series, and why; None where nobody has."""
    given = series.acknowledged
    return f"acknowledged until {_moment(given.until)}: {given.reason}" if given else None


def _mean(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _headroom(window: WindowFigures) -> str:
    """Return what a null says where an arm's baseline left no room for a rise or a fall."""
    said = {
        "already_passed": "; {arm} had already passed the panel in the baseline",
        "already_failed": "; {arm} had already failed the panel in the baseline",
    }
    return "".join(said[arm.headroom].format(arm=arm.arm) for arm in window.arms if arm.headroom in said)


def _series(series: SeriesStatus, now: datetime) -> Iterator[str]:
    state = f"{series.state.upper()} since {series.since.date()}   {series.phase}"
    blocked = series.blocked
    if blocked is not None:
        yield f"! {series.name:<10} BLOCKED {blocked.reason} since {blocked.since}   run: {blocked.command}"
        yield f"{_INDENT}{state}"
    else:
        mark = "!" if series.stale else _MARKS.get(series.state, "×")
        yield f"{mark} {series.name:<10} {state}"
    if banner := judge_banner(series):
        yield f"{_INDENT}{banner}"
    yield f"{_INDENT}{sentence_of(series).partition(': ')[2]}"
    if acknowledged := acknowledged_sentence(series):
        yield f"{_INDENT}{acknowledged}"
    if series.window:
        yield from _window(series.window, series.min_effect)
    for sentence in sentinel_sentences(series):
        yield f"{_INDENT}{sentence}"
    if series.sentinels:
        counted = ", ".join(f"{one.item_id} {one.state}" for one in series.sentinels.each)
        yield f"{_INDENT}sentinels {series.sentinels.state} in the slot of {series.sentinels.slot_date}: {counted}"
    yield from (f"{_INDENT}{line}" for line in judge_lines(series))
    for stream in series.early_warnings:
        yield f"{_INDENT}{_stream(stream)}"
    yield from (f"{_INDENT}{line}" for line in _deviations(series))
    yield from (f"{_INDENT}{line}" for line in (*_runs(series), *_budget(series.budget)))
    ago = f" ({_ago(series.last_success, now)})" if series.last_success else ""
    stale = "   STALE" if series.stale else ""
    last = _moment(series.last_success) if series.last_success else "never"
    yield f"{_INDENT}last success {last}{ago}{stale}   next run {_next(series.next_run, now)}"


def _runs(series: SeriesStatus) -> Iterator[str]:
    for one in series.open_runs:
        begun = f"{one.arm}: the run of {one.slot_date}"
        if one.is_running:
            yield f"{begun} is running since {_moment(one.started_at)}"
        else:
            yield f"{begun} began {_moment(one.started_at)}, and its process is gone; {_GONE}"
    for run in series.last_runs:
        if run.outcome != "completed":
            yield f"{run.arm}: the run of {run.slot_date} ended {run.outcome}: {run.reason}"
        if run.set_aside in SET_ASIDE:
            yield f"{run.arm}: {run.slot_date} is set aside as {run.set_aside}: {SET_ASIDE[run.set_aside]}"
        if run.blocked:
            yield f"{run.arm}: BLOCKED {run.blocked}   run: {remedy(run.blocked, series=series.name)}"


def _budget(lines: Sequence[BudgetLine]) -> Iterator[str]:
    if lines:
        said = (f"{one.limit.replace('_', ' ')} {one.used:.10g}/{one.most:.10g}" for one in lines)
        yield f"budget: {', '.join(said)}"


def _deviations(series: SeriesStatus) -> Iterator[str]:
    """Yield what was decided about the series; slots without the trivial task are counted in one line."""
    for note in series.deviations:
        if note.kind != "no_canary":
            yield f"deviation {note.kind} on {note.date}: {note.reason}"
    for one in series.quarantines:
        yield f"quarantine of {one.slot_date} ({', '.join(one.arms)}) noted {_moment(one.at)}: {one.reason}"
    if bare := series.slots_without_canary:
        yield f"{counted(len(bare), 'slot')} measured without the trivial task, the last on {bare[-1]}"


def _window(window: WindowFigures, min_effect: float) -> Iterator[str]:
    yield (
        f"{_INDENT}window {window.index} ({window.first} to {window.last})   minimum effect "
        f"{points(min_effect, signed=False)}   MDE of the rule {points(window.mde, signed=False)}"
    )
    for arm in window.arms:
        for delta in arm.configuration_deltas:
            yield f"{_INDENT}{arm.arm}: recorded configuration {delta}"
    for arm in window.arms:
        yield f"{_INDENT}{_arm(arm, window.panel_items)}"
        yield from (f"{_INDENT}  {line}" for line in _beneath(arm))
    if window.sentinels_excluded:
        yield f"{_INDENT}sentinels excluded from these figures: {window.sentinels_excluded}"
    for one in window.across_epochs:
        yield (
            f"{_INDENT}{one.arm} against the baseline of epoch {one.epoch} ({one.first} to {one.last}): "
            f"{points(one.delta)} {interval(one.ci_lower, one.ci_upper)}, described only"
        )
    for line in dated((event.date, event.text) for event in window.coincides_with):
        yield f"{_INDENT}coincides with: {line}"
    if window.reasons:
        yield f"{_INDENT}not evaluable: {', '.join(window.reasons)}"


def _beneath(arm: ArmFigures) -> Iterator[str]:
    """Yield what is said of an arm under its figures: what they leave out and who answered."""
    if aside := days_set_aside(arm.days_set_aside, arm.baseline_days_set_aside):
        yield aside
    if arm.resolved_models:
        standing = ", ".join(word.replace("_", " ") for word in arm.resolved_standing)
        yield f"resolved {', '.join(arm.resolved_models)} ({standing})"
    if arm.wrong_delta is not None:
        wrong = interval(arm.wrong_ci_lower, arm.wrong_ci_upper)
        yield f"outcome failures counted as wrong: delta {points(arm.wrong_delta)} {wrong}".rstrip()


def _arm(arm: ArmFigures, panel_items: int) -> str:
    note = "" if arm.status == "ok" else f"   [{estimate_status(arm.status)}]"
    head = (arm.arm if arm.arm == arm.role else f"{arm.arm} ({arm.role})").ljust(20)
    delta = f"delta {points(arm.delta)} {interval(arm.ci_lower, arm.ci_upper)}".ljust(40)
    headroom = f"   headroom {arm.headroom}" if arm.headroom not in (None, "ok") else ""
    outcomes = "   OUTCOME RATE MOVED" if arm.outcome_rate_state == "moved" else ""
    return f"{head} {delta} items {arm.pairs}/{panel_items}   {_tokens(arm)}{outcomes}{headroom}{note}"


def _tokens(arm: ArmFigures) -> str:
    if arm.token_change is None:
        return "tokens unknown"
    moved = f" {arm.token_state.upper()}" if arm.token_state in ("increase", "decrease") else ""
    change = f"{100 * arm.token_change:+z.0f} % {interval(arm.token_ci_lower, arm.token_ci_upper)}".rstrip()
    rest = f" of {counted(arm.token_pairs, 'item')}" if arm.token_pairs != arm.pairs else ""
    return f"tokens {change}{rest}{moved}"


def _stream(stream: StreamStatus) -> str:
    text = (
        f"early warning {stream.stream:<10} {stream.state:<10} capital {stream.capital:.3g} of {stream.threshold:.0f}"
    )
    if stream.alarmed_on is None:
        return text
    onset = f", most likely first changed day {stream.alarm_onset}" if stream.alarm_onset else ""
    return f"{text}   alarmed on {stream.alarmed_on}{onset}"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%MZ}"


def _next(moment: datetime, now: datetime) -> str:
    minutes = int((moment - now).total_seconds() // 60)
    return f"{_moment(moment)} ({f'in {minutes // 60} h {minutes % 60} min' if minutes >= 0 else 'due'})"


def _ago(moment: datetime, now: datetime) -> str:
    if moment > now:
        return "in the future: the clock was set back"
    hours = int((now - moment).total_seconds() // 3600)
    return f"{hours} h ago" if hours < 72 else f"{hours // 24} days ago"
