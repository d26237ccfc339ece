"""A calibration for a person; what a script reads is the JSON form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_WHY = {
    "kept": "kept",
    "too_easy": "too easy",
    "too_hard": "too hard",
    "unanswered": "unanswered",
    "unfinished": "unfinished",
}

#: Why an item of the pool is not in the panel.
_DROPPED = {
    "too_easy": "too easy: the scores sum to more than that",
    "too_hard": "too hard: they sum to less",
    "unanswered": "unanswered: an answer was refused, truncated or empty, so the screen of the item cannot be whole",
    "unfinished": "unfinished: samples are still missing",
}


def screen_text(report: Mapping[str, Any]) -> str:
    """Return what the screen kept and dropped, whole and by family."""
    return "\n".join([*_screen(report), "next: canaryd calibrate confirm"])


def confirm_text(report: Mapping[str, Any]) -> str:
    """Return how far the kept items went back from the screen to the fresh confirmation."""
    return "\n".join([*_regression(report), "next: canaryd calibrate design --out PANEL"])


def design_text(design: Mapping[str, Any], *, power: str) -> str:
    """Return what the confirmed items see, and what other budgets would buy."""
    return "\n".join(_design(design, power))


def _screen(report: Mapping[str, Any]) -> Iterator[str]:
    rule, pool = report["rule"], report["pool"]
    yield f"pool      {pool['path']}, {pool['items']} items, asked of arm {report['arm']}"
    yield (
        f"screen    {rule['screen_samples']} samples an item; kept are scores that sum to "
        f"{rule['keep_min']:g} .. {rule['keep_max']:g}"
    )
    yield "          " + ", ".join(f"{count} {_WHY[said]}" for said, count in report["screened"].items())
    yield from (f"          {sentence}" for said, sentence in _DROPPED.items() if report["screened"].get(said))
    yield f"  {'family':<14}{'items':>6}" + "".join(f"{title:>12}" for title in _WHY.values())
    for row in report["families"]:
        yield f"  {row['family']:<14}{row['items']:>6}" + "".join(f"{row.get(said, 0):>12}" for said in _WHY)


def _regression(report: Mapping[str, Any]) -> Iterator[str]:
    samples = report["rule"]["confirm_samples"]
    yield f"regression to the mean: the kept items in the screen and on {samples} fresh samples, in points"
    for title, rows in (("family", report["regression"]), ("screen score", report["by_screen_score"])):
        yield f"  {title:<14}{'items':>6}{'screen':>9}{'fresh':>9}{'change':>9}"
        yield from (_regressed(row) for row in rows)
    yield "only the fresh scores say what these items are; the screen chose them and is not used again"


def _regressed(row: Mapping[str, Any]) -> str:
    before, after = row["screen"], row["confirm"]
    figures = "  not confirmed yet" if after is None else f"{100 * before:>9.1f}{100 * after:>9.1f}"
    change = "" if after is None else f"{100 * (after - before):>+9.1f}"
    return f"  {row['group']:<14}{row['items']:>6}{figures}{change}"


def _design(design: Mapping[str, Any], power: str) -> Iterator[str]:
    mde = design["mde"]
    yield (
        f"panel     {design['items']} items, {design['per_day']} a day, mean score {100 * design['mean_score']:.1f}, "
        f"mean p(1 - p) {design['mean_information']:.4f} (unbiased, fresh samples)"
    )
    yield (
        f"sees      SE {100 * mde['se']:.2f} points; smallest change in one window {100 * mde['one_window']:.1f}, "
        f"by the rule {100 * mde['two_windows']:.1f} ({power})"
    )
    purchases: Sequence[Mapping[str, Any]] = design["purchases"]
    rates = sorted({row["per_day"] for row in purchases})
    yield "what a budget buys: smallest change that the rule sees, in points (calls a window of one arm)"
    yield f"  {'items':>6}" + "".join(f"{f'{rate}/day':>16}" for rate in rates)
    for items in sorted({row["items"] for row in purchases}):
        cells = [row for row in purchases if row["items"] == items]
        figures = (f"{100 * row['mde']['two_windows']:.1f} ({row['calls_per_window']})" for row in cells)
        yield f"  {items:>6}" + "".join(f"{figure:>16}" for figure in figures)
    yield "several samples of one item on one day count as independent here, which they seldom are"


def estimates_text(estimates: Mapping[str, Any]) -> str:
    """Return the smallest change under the three estimates of an item's variance."""
    titles = {"unbiased": "unbiased s(n-s)/(n(n-1))", "plug_in": "plug-in p(1-p)", "shrunk": "shrunk, Beta(1, 1)"}
    lines = [f"  {'variance from':<26}{'SE':>9}{'one window':>12}{'the rule':>12}   points"]
    for key, title in titles.items():
        mde = estimates[key]
        figures = (
            f"{100 * mde['se']:>9.4f}",
            f"{100 * mde['one_window']:>12.4f}",
            f"{100 * mde['two_windows']:>12.4f}",
        )
        lines.append(f"  {title:<26}" + "".join(figures))
    return "\n".join(
        [
            *lines,
            "only the unbiased one is used: the plug-in makes the variance too small, shrinking makes it too large",
        ]
    )
