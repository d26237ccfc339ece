"""String fidelity: letters copied, reversed or rearranged exactly."""

from __future__ import annotations

from canaryd.generators.draw import Draw
from canaryd.generators.family import Family, Question
from canaryd.records import JsonValue

_OPTIONS: dict[str, JsonValue] = {"strip": "`\"'", "fallbacks": ["boxed", "line"]}
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_LADDER = (
    "copying 16 characters",
    "reversing 10 characters",
    "every second of 24 characters",
    "reversing 32 characters, then swapping neighbours",
)


def rearranged(text: str, level: int) -> str:
    """Return what a level asks to be done with a text.

    >>> [rearranged("abcdef", level) for level in (1, 2, 3, 4)]
    ['abcdef', 'fedcba', 'bdf', 'efcdab']
    """
    if level == 1:
        return text
    if level == 3:
        return text[1::2]
    back = text[::-1]
    return back if level == 2 else "".join(back[at + 1] + back[at] for at in range(0, len(back), 2))


_TASKS = (
    "Copy this string exactly: {}",
    "Write this string backwards: {}",
    "Write every second character of this string, beginning with the second one: {}",
    "Write this string backwards, and then swap the characters of each pair (1st with 2nd, 3rd with 4th, ...): {}",
)


def _draw(draw: Draw, level: int) -> Question:
    """Return a random string with something to do to it."""
    text = "".join(draw.choice(_LETTERS) for _ in range((16, 10, 24, 32)[level - 1]))
    return Question(_TASKS[level - 1].format(text), rearranged(text, level), "edit", _OPTIONS)


FIDELITY = Family("fidelity", "exact handling of strings", _LADDER, _draw)
