"""Calendar arithmetic over written-out dates."""

from __future__ import annotations

from datetime import date, timedelta

from canaryd.generators.draw import Draw
from canaryd.generators.family import Family, Question

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS = "ABCDEFG"
_LADDER = (
    "the weekday some days after a given weekday",
    "the weekday of a date, from the weekday of another date of the same month",
    "the weekday some hundred days after a date whose weekday is given",
    "the weekday of a date in another century, from the weekday of a given date",
)


def _draw(draw: Draw, level: int) -> Question:
    """Return a question for a weekday among seven lettered options; the target is a letter."""
    first = date(draw.between(1901, 2090), draw.between(1, 12), draw.between(1, 28))
    if level == 1:
        days = draw.between(8, 60)
        wanted = first + timedelta(days)
        question = f"If some day is a {_weekday(first)}, which weekday comes {days} days later?"
    elif level == 3:
        days = draw.between(200, 999)
        wanted = first + timedelta(days)
        question = f"{_written(first)} is a {_weekday(first)}. Which weekday comes {days} days later?"
    else:
        other = draw.choice([day for day in range(1, 29) if day != first.day])
        years = draw.choice((-1, 1)) * draw.between(101, 300) if level == 4 else 0
        wanted = first.replace(year=first.year + years, day=other)
        question = (
            f"In the Gregorian calendar {_written(first)} is a {_weekday(first)}. Which weekday is {_written(wanted)}?"
        )
    order = draw.shuffled(_DAYS)
    listed = "\n".join(f"{letter}) {day}" for letter, day in zip(_LETTERS, order, strict=True))
    target = _LETTERS[order.index(_weekday(wanted))]
    prompt = f"{question}\n{listed}\nAnswer with the letter only."
    return Question(prompt, target, "choice", {"labels": _LETTERS, "fallbacks": ["boxed", "line"]})


def _weekday(day: date) -> str:
    """Return the English name of a date's weekday."""
    return _DAYS[day.weekday()]


def _written(day: date) -> str:
    """Return a date in ISO form, which has one reading everywhere."""
    return day.isoformat()


CALENDAR = Family("calendar", "weekday arithmetic", _LADDER, _draw)
