"""A validation for a person; what a script reads is the JSON form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from canaryd.wording import interval, points

_PASSED = {True: "passed", False: "FAILED", None: "not judged yet"}


def validation_text(report: Mapping[str, Any]) -> str:
    """Return the JSON form of a validation as lines."""
    return "\n".join(_lines(report))


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"validation of {report['series']}: {_PASSED[report['passed']]} (every test at {report['alpha']:g})"
    yield ""
    yield from _across_days(report)
    inside = report["inside_sessions"]
    beside = "no session yet" if inside is None else _estimate(inside, leg="ci_item")
    yield f"  beside it, odd against even replicates inside a session: {beside} (blind to days; decides nothing)"
    yield ""
    sessions = ", ".join(report["sessions"]) or "none"
    yield f"positive controls, asked side by side with the tracked arm; sessions: {sessions}"
    for control in report["controls"]:
        seen = ", ".join(control["seen"]) or "nothing"
        yield f"  {control['name']:<16}{_PASSED[control['passed']]:<16}seen in {seen}"
        yield f"    score     {_estimate(control['score'], leg='ci_item')}"
        yield f"    tokens    {_change(control['tokens'])}"
    yield ""
    yield report["cannot_see"]


def _across_days(report: Mapping[str, Any]) -> Iterator[str]:
    days = report["days"]
    if days is None:
        yield "A/A across days: no baseline day is measured yet"
        return
    over = "" if report["baseline_is_over"] else ", the baseline still runs"
    yield f"A/A across days: even against odd baseline days ({days['days'][1]} and {days['days'][0]}{over})"
    yield f"  {_PASSED[days['passed']]}: {_estimate(days['estimate'], leg='ci')}"
    noise = days["noise"]
    if noise is not None:
        limit = f"df {noise['df']}; chance alone stays below {noise['limit']:.2f}"
        yield f"  phi = V_day / V_obs = {noise['phi']:.2f} ({limit})"


def _estimate(estimate: Mapping[str, Any], *, leg: str) -> str:
    if estimate.get(leg) is None:
        return f"no interval ({estimate['status']})"
    low, high = estimate[leg]
    level = f"{100 * estimate['confidence']:g} % CI"
    return f"{points(estimate['delta'])}, {level} {interval(low, high)}"


def _change(tokens: Mapping[str, Any]) -> str:
    if tokens["change"] is None or tokens["ci_item"] is None:
        return "not known on both sides"
    low, high = tokens["ci_item"]
    return f"{100 * tokens['change']:+z.1f} % {interval(low, high)}"
