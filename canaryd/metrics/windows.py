"""The figures of the two latest decided windows, as their verdicts hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from canaryd.metrics.catalogue import NOT_EVALUABLE_REASONS, WINDOWS
from canaryd.metrics.values import Values
from canaryd.store.rows import StoredArm, StoredVerdict

Clauses = Mapping[str, Any]


def add_windows(values: Values, series: str, *, arms: Sequence[StoredArm], verdicts: Sequence[StoredVerdict]) -> None:
    """Add what the latest and the previous verdict say; before there is one, the states warm up and nothing pairs."""
    tracked = next(arm for arm in arms if arm.role == "tracked")
    for window, stored in zip(WINDOWS, reversed(verdicts), strict=False):
        clauses: Clauses = stored.verdict.clauses
        _add_dates(values, clauses, series=series, window=window)
        for arm in arms:
            if arm.name in clauses["arms"]:
                _add_arm(values, clauses, arm=arm, series=series, window=window)
        mde = clauses["mde"]
        values.add("window_mde_ratio", mde["two_windows"] if mde else None, series, tracked.name, window)
        _add_difference(values, clauses, series=series, window=window)
    for window in WINDOWS[len(verdicts) :]:
        for arm in arms:
            values.add("window_pairs", 0, series, arm.name, window)
    latest = verdicts[-1].verdict if verdicts else None
    _add_states(values, latest.clauses if latest else None, series=series, tracked=tracked.name)
    against = latest.reasons if latest and latest.kind == "not_evaluable" else ()
    for reason in NOT_EVALUABLE_REASONS:
        values.add("not_evaluable_reason", reason in against, series, reason)


def last_day(clauses: Clauses) -> date:
    """Return the last day of the window that a verdict is about."""
    return date.fromisoformat(clauses["last"])


def _add_states(values: Values, clauses: Clauses | None, *, series: str, tracked: str) -> None:
    beside = clauses["arms"][tracked] if clauses else None
    values.add_state("token_state", beside["tokens"]["state"] if beside else "warming_up", series)
    values.add_state("outcome_rate_state", beside["outcomes"]["state"] if beside else "warming_up", series)


def _add_dates(values: Values, clauses: Clauses, *, series: str, window: str) -> None:
    first, last = date.fromisoformat(clauses["first"]), last_day(clauses)
    values.add("window_start_timestamp_seconds", datetime.combine(first, time(), UTC), series, window)
    end = datetime.combine(last + timedelta(days=1), time(), UTC)
    values.add("window_end_timestamp_seconds", end, series, window)


def _add_arm(values: Values, clauses: Clauses, *, arm: StoredArm, series: str, window: str) -> None:
    labels = (series, arm.name, window)
    state = clauses["window"] if arm.role == "tracked" else clauses["controls"][arm.name]["window"]
    estimate, beside = state["estimate"], clauses["arms"][arm.name]
    values.add("window_delta_ratio", estimate["delta"], *labels)
    _add_interval(values, "window_delta", interval=estimate.get("ci"), labels=labels)
    values.add("window_delta_standard_error_ratio", estimate.get("se"), *labels)
    values.add("window_pairs", estimate["items_paired"], *labels)
    values.add("window_unpaired_items", clauses["panel_items"] - estimate["items_paired"], *labels)
    values.add("window_usable_days", state["usable_days"], *labels)
    values.add("window_error_ratio", _share(state["errors"], state["attempts"]), *labels)
    values.add("window_outcome_failure_ratio", _outcome_share(beside["outcomes"]), *labels)
    values.add("window_tokens_change_ratio", beside["tokens"]["change"], *labels)
    _add_interval(values, "window_tokens_change", interval=beside["tokens"]["ci"], labels=labels)
    headroom = beside["headroom"]
    if window == "latest" and headroom:
        values.add("baseline_score_ratio", headroom["mean"], series, arm.name)


def _add_difference(values: Values, clauses: Clauses, *, series: str, window: str) -> None:
    """Add tracked minus control; of several controls the first that shares items enough for an estimate."""
    known = [each for each in clauses["differences"].values() if each["delta"] is not None]
    if known:
        values.add("window_difference_ratio", known[0]["delta"], series, window)
        _add_interval(values, "window_difference", interval=known[0].get("ci_item"), labels=(series, window))


def _add_interval(values: Values, metric: str, *, interval: Sequence[float] | None, labels: tuple[str, ...]) -> None:
    if interval:
        values.add(f"{metric}_ci_lower_ratio", interval[0], *labels)
        values.add(f"{metric}_ci_upper_ratio", interval[1], *labels)


def _outcome_share(outcomes: Clauses) -> float | None:
    together = [test for test in outcomes["tests"] if test["kind"] == "any"]
    return _share(together[0]["failed_window"], outcomes["answered_window"]) if together else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
