"""How counts, scores and values of a file are said."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, time
from typing import Any


def as_toml(value: Any) -> str:
    """Return a value as a TOML file writes it, which is how its author knows it.

    >>> print(as_toml([True, 1.5, "m-1", "it's", date(2026, 1, 1), {"a": float("inf")}]))
    [true, 1.5, 'm-1', "it's", 2026-01-01, {a = inf}]
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {as_toml(each)}' for key, each in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, str):
        is_plain = value.isprintable() and "'" not in value
        return f"'{value}'" if is_plain else json.dumps(value, ensure_ascii=False)
    return str(value)


#: What a change is called, by its direction.
DIRECTIONS = {"down": "regression", "up": "improvement"}
#: Whose a change is, in a table; what was held against what is a sentence of the status.
_WHOSE = {
    "model": "likely of the model",
    "platform": "likely of the platform or the harness",
    "unattributed": "of the model or of the platform",
}
#: What the status of an estimate says, or the reason why it decides nothing.
_STATUSES = {
    "zero_variance": "every item moved alike, so the standard error is a floor and not an estimate",
    "sparse": "few items moved at all, so the standard error is held up by a floor",
    "no_overlap": "no item has a score on both sides",
    "single_item": "only one item has a score on both sides",
    "single_cluster": "all paired items belong to one cluster, whose spread cannot be known",
    "too_few_clusters": "the paired items come in too few clusters for an interval",
    "too_few_items": "too few of the items have a score on both sides",
}


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one.

    >>> counted(1, "item"), counted(0, "reply"), counted(2, "day")
    ('1 item', '0 replies', '2 days')
    """
    if count == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count} {plural}"


def spoken(name: str) -> str:
    """Return the name of a state as it is said.

    >>> spoken("no_change_detected")
    'no change detected'
    """
    return name.replace("_", " ")


def change(direction: str | None, attribution: str | None) -> str:
    """Return what a declared change is called and whose it is; nothing where none is declared.

    >>> change("down", "model"), change("up", "unattributed"), change(None, None)
    ('regression, likely of the model', 'improvement, of the model or of the platform', '')
    """
    return ", ".join([*([DIRECTIONS[direction]] if direction else []), *([_WHOSE[attribution]] if attribution else [])])


def decided(kind: str, direction: str | None, *, attribution: str | None, reasons: Iterable[str]) -> str:
    """Return what was decided about a window in one line.

    >>> decided("change", "down", attribution="model", reasons=())
    'change (regression, likely of the model)'
    >>> decided("not_evaluable", None, attribution=None, reasons=["too_few_days"])
    'not evaluable (too_few_days)'
    """
    more = ", ".join(filter(None, (change(direction, attribution), *reasons)))
    return f"{spoken(kind)} ({more})" if more else spoken(kind)


def estimate_status(status: str) -> str:
    """Return what the status of an estimate says, or why it decides nothing; `ok` where nothing is to be said.

    >>> estimate_status("single_item"), estimate_status("ok")
    ('only one item has a score on both sides', 'ok')
    """
    return _STATUSES[status] if status != "ok" else status


def days_set_aside(window: int, baseline: int) -> str:
    """Return how many days of a window and of its baseline are set aside as a whole; nothing where none is.

    >>> days_set_aside(2, 1), days_set_aside(1, 0), days_set_aside(0, 0)
    ('2 days set aside in the window, 1 day set aside in the baseline', '1 day set aside in the window', '')
    """
    days = {"window": window, "baseline": baseline}
    return ", ".join(f"{counted(count, 'day')} set aside in the {where}" for where, count in days.items() if count)


def points(value: float | None, *, signed: bool = True) -> str:
    """Return a fraction in points of score.

    >>> points(-0.0415), points(0.0415, signed=False), points(None)
    ('-4.2 points', '4.2 points', 'unknown')
    """
    if value is None:
        return "unknown"
    return f"{100 * value:{'+z' if signed else ''}.1f} points"


def interval(lower: float | None, upper: float | None) -> str:
    """Return an interval of fractions in points of score, nothing where there is none.

    >>> interval(-0.06, -0.0004), interval(None, None)
    ('[-6.0, +0.0]', '')
    """
    return "" if lower is None or upper is None else f"[{100 * lower:+z.1f}, {100 * upper:+z.1f}]"


def dated(happened: Iterable[tuple[date, str]]) -> list[str]:
    """Return one line for each thing that happened: its date, or how often it did between its first and last date.

    >>> first, last = date(2027, 1, 1), date(2027, 1, 3)
    >>> dated([(first, "a roll"), (first, "a wrong answer"), (last, "a wrong answer")])
    ['2027-01-01, a roll', '2 times from 2027-01-01 to 2027-01-03, a wrong answer']
    """
    days: dict[str, list[date]] = {}
    for day, what in happened:
        days.setdefault(what, []).append(day)
    return [
        f"{found[0]}, {what}" if len(found) == 1 else f"{len(found)} times from {min(found)} to {max(found)}, {what}"
        for what, found in days.items()
    ]
