"""How a report writes numbers and names; scores and deltas come as fractions and are written in points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from canaryd.stats.estimate import Estimate, TooFew
from canaryd.wording import estimate_status, spoken

UNKNOWN = "unknown"

#: Each clause in words, and how its figure and limit are written.
_CLAUSES = {
    "baseline_harness": ("one harness measured the baseline", "names"),
    "baseline_error_rate": ("error rate of the baseline below the limit", "percent"),
    "baseline_too_few_days": ("usable days of the baseline", "percent"),
    "no_data": ("items with a score on both sides", "count"),
    "error_rate": ("error rate below the limit", "percent"),
    "harness": ("the same harness as in the baseline", "names"),
    "too_few_days": ("usable days", "percent"),
    "too_few_items": ("items with a score on both sides, of the panel", "percent"),
    "too_few_clusters": ("degrees of freedom", "count"),
    "no_day_leg": ("days on the shorter side", "count"),
    "item_leg": ("beyond chance on the items: size of the delta above the limit", "points"),
    "day_leg": ("beyond chance on the days: size of the delta above the limit", "points"),
    "min_effect": ("large enough: size of the delta", "points"),
    "min_change": ("large enough: relative change", "percent"),
}


def signed(fraction: float | None) -> str:
    """Return a fraction in signed points.

    >>> signed(-0.0415), signed(None)
    ('-4.2', 'unknown')
    """
    return UNKNOWN if fraction is None else f"{100 * fraction:+z.1f}"


def points(fraction: float | None) -> str:
    """Return a fraction in points without a sign.

    >>> points(0.0415)
    '4.2'
    """
    return UNKNOWN if fraction is None else f"{100 * fraction:.1f}"


def bounds(pair: Sequence[float | None] | None) -> str:
    """Return an interval in signed points.

    >>> bounds([-0.05, 0.012]), bounds(None)
    ('[-5.0, +1.2]', 'unknown')
    """
    return UNKNOWN if pair is None else f"[{signed(pair[0])}, {signed(pair[1])}]"


def p_value(p: float | None) -> str:
    """Return a p-value with two digits.

    >>> p_value(0.00001), p_value(0.0123), p_value(None)
    ('< 0.0001', '0.0123', 'unknown')
    """
    if p is None:
        return UNKNOWN
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def arm(name: str, role: str) -> str:
    """Return an arm with its role.

    >>> arm("large", "tracked"), arm("control", "control")
    ('large (tracked)', 'control')
    """
    return name if name == role else f"{name} ({role})"


def estimate_cells(estimate: Estimate | TooFew) -> tuple[str, str, str]:
    """Return delta, interval (the item leg's where there is no day leg) and status of an estimate.

    An estimate that can decide nothing has no interval: with so few clusters it would be as wide as one likes.
    """
    if isinstance(estimate, TooFew):
        return signed(estimate.delta), UNKNOWN, estimate_status(estimate.reason)
    if not estimate.decidable:
        return signed(estimate.delta), UNKNOWN, estimate_status(estimate.status)
    return signed(estimate.delta), bounds(estimate.ci or estimate.ci_item), estimate_status(estimate.status)


def stored_cells(estimate: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return delta, interval and status of an estimate as a verdict holds it.

    >>> stored_cells({"delta": 0.1, "status": "ok", "ci": [0.05, 0.15]})
    ('+10.0', '[+5.0, +15.0]', 'ok')
    """
    return signed(estimate["delta"]), bounds(estimate.get("ci")), estimate_status(estimate["status"])


def clause_row(clause: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return a stored clause in words: what is asked, how it came out, its figure, its limit."""
    text, kind = _CLAUSES.get(clause["clause"], (spoken(clause["clause"]), "count"))
    outcome = "met" if clause["passed"] else "not met"
    return text, outcome, _figure(clause["figure"], kind), _figure(clause["limit"], kind)


def _figure(value: Any, kind: str) -> str:
    if value is None:
        return "none" if kind == "names" else UNKNOWN
    if isinstance(value, list):
        return ", ".join(digest(each) for each in value) or "none"
    return {"percent": f"{100 * value:.1f} %", "points": points(value), "count": f"{value:.4g}"}[kind]


def spans(days: Sequence[date]) -> str:
    """Return ascending days with neighbours drawn together.

    >>> spans([date(2027, 1, 1), date(2027, 1, 2), date(2027, 1, 5)])
    '2027-01-01 to 2027-01-02, 2027-01-05'
    """
    runs: list[list[date]] = []
    for day in days:
        if runs and day - runs[-1][-1] == timedelta(days=1):
            runs[-1].append(day)
        else:
            runs.append([day])
    return ", ".join(" to ".join(dict.fromkeys((str(run[0]), str(run[-1])))) for run in runs)


def digest(text: str) -> str:
    """Return the first digits of a digest, enough to recognise it.

    >>> digest("sha256:0123456789abcdef")
    '01234567'
    """
    return text.removeprefix("sha256:")[:8]


def counts(by_name: Mapping[str, int]) -> str:
    """Return counts by name in one line.

    >>> counts({"refusal": 2, "timeout": 1}), counts({})
    ('3 (refusal 2, timeout 1)', '0')
    """
    if not by_name:
        return "0"
    return f"{sum(by_name.values())} ({', '.join(f'{name} {count}' for name, count in by_name.items())})"
