"""How counts are said."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one.

    >>> counted(1, "item"), counted(0, "reply"), counted(2, "day")
    ('1 item', '0 replies', '2 days')
    """
    if count == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count} {plural}"
