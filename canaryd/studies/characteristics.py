"""Operating characteristics for a person: the answer of a simulation as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from canaryd.stats.binomial import upper_limit
from canaryd.wording import points


def as_text(answer: Mapping[str, Any]) -> str:
    """Return the JSON form of operating characteristics as two tables, rates in percent and changes in points."""
    return "\n".join([*_false_alarms(answer), "", *_detections(answer)])


def _false_alarms(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = answer["false_alarms"]
    horizons = list(rows[0]["rule"])
    within = " / ".join(horizons)
    yield f"false alarms although nothing changes: % of series within {within} days (below: exact 95 % upper limits)"
    for row in rows:
        yield f"  day shock {_shock(row['shock']):<22} the rule            {_shares(row['rule'], horizons)}"
        for stream, shares in row["early_warning"].items():
            yield f"  {'':<32} early warning {stream:<11}{_shares(shares, horizons)}"


def _detections(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = answer["detections"]
    if not rows:
        return
    within = list(rows[0]["rule"]["within"])
    yield f"detected within {' / '.join(within)} days of the change, and the median delay"
    for row in rows:
        change = f"{points(-row['drop'])} after day {row['change_day']}, {row['truth']}"
        yield f"  {change:<36} the rule            {_delays(row['rule'], within)}{_calls(row['calls'])}"
        for stream, delays in row["early_warning"].items():
            yield f"  {'':<36} early warning {stream:<11}{_delays(delays, within)}"


def _shock(shock: Mapping[str, float]) -> str:
    if not shock["sd"]:
        return "none"
    return f"{100 * shock['sd']:g} points" + (f", AR(1) {shock['rho']:g}" if shock["rho"] else "")


def _shares(shares: Mapping[str, Any], keys: Sequence[str]) -> str:
    limits = " / ".join(f"{100 * upper_limit(shares[key]['share'], shares[key]['series']):.2f}" for key in keys)
    return " / ".join(f"{100 * shares[key]['share']:.2f}" for key in keys) + f" %  (below {limits})"


def _delays(delays: Mapping[str, Any], keys: Sequence[str]) -> str:
    shares = " / ".join(f"{100 * delays['within'][key]['share']:.0f}" for key in keys)
    median = "not reached" if delays["median"] is None else f"{delays['median']:.0f} days"
    return f"{shares} %, median {median}"


def _calls(calls: Mapping[str, Any]) -> str:
    if not calls:
        return ""
    return "; called " + ", ".join(f"{name} {100 * share['share']:.0f} %" for name, share in calls.items())
