"""Program tracing: what a short program prints."""

from __future__ import annotations

from canaryd.generators.draw import Draw
from canaryd.generators.family import Family, Question

_LADDER = (
    "six assignments to two variables",
    "a loop with a branch",
    "a loop over a list that changes",
    "two nested loops with a branch and a break",
)


def _straight(draw: Draw) -> tuple[str, int]:
    """Return six assignments and what the program prints."""
    a, b = draw.between(3, 20), draw.between(3, 20)
    lines = [f"a = {a}", f"b = {b}"]
    for _ in range(6):
        kind, by = draw.below(5), draw.between(2, 9)
        if kind == 0:
            lines, a = [*lines, "a = a + b"], a + b
        elif kind == 1:
            lines, b = [*lines, f"b = b * {by} - a"], b * by - a
        elif kind == 2:
            lines, a = [*lines, f"a = a - {by}"], a - by
        elif kind == 3:
            lines, a, b = [*lines, "a, b = b, a"], b, a
        else:
            lines, b = [*lines, f"b = b % {by + 10} + {by}"], b % (by + 10) + by
    return "\n".join([*lines, "print(a * 3 + b)"]), a * 3 + b


def _branching(draw: Draw) -> tuple[str, int]:
    """Return a loop with a branch and what the program prints."""
    rounds, period, gain, loss = draw.between(6, 12), draw.between(2, 4), draw.between(3, 9), draw.between(2, 9)
    total = start = draw.between(1, 30)
    for i in range(rounds):
        total += i * gain if i % period == 0 else -loss
    text = (
        f"total = {start}\nfor i in range({rounds}):\n    if i % {period} == 0:\n        total += i * {gain}\n"
        f"    else:\n        total -= {loss}\nprint(total)"
    )
    return text, total


def _queue(draw: Draw) -> tuple[str, int]:
    """Return a loop over a list that changes and what the program prints."""
    queue = [draw.between(1, 9) for _ in range(5)]
    rounds, factor, modulus = draw.between(6, 9), draw.between(2, 5), draw.between(7, 13)
    text = (
        f"queue = {queue}\nfor i in range({rounds}):\n    first = queue.pop(0)\n"
        f"    queue.append((first * {factor} + i) % {modulus})\nprint(queue[0] * 100 + queue[2] * 10 + queue[4])"
    )
    for i in range(rounds):
        queue = [*queue[1:], (queue[0] * factor + i) % modulus]
    return text, queue[0] * 100 + queue[2] * 10 + queue[4]


def _nested(draw: Draw) -> tuple[str, int]:
    """Return two nested loops and what the program prints."""
    outer, limit, step, modulus = draw.between(5, 7), draw.between(9, 15), draw.between(2, 4), draw.between(5, 9)
    text = (
        f"count = 0\nvalue = 1\nfor i in range(1, {outer}):\n    for j in range(1, {outer}):\n"
        f"        if i * j > {limit}:\n            break\n        if (i + j) % {step} == 0:\n"
        f"            value = (value * i + j) % {modulus}\n        else:\n            count += value\n"
        f"print(count * 10 + value)"
    )
    count, value = 0, 1
    for i in range(1, outer):
        for j in range(1, min(outer - 1, limit // i) + 1):
            if (i + j) % step == 0:
                value = (value * i + j) % modulus
            else:
                count += value
    return text, count * 10 + value


_PROGRAMS = (_straight, _branching, _queue, _nested)


def _draw(draw: Draw, level: int) -> Question:
    """Return a program; the target is the number it prints."""
    text, printed = _PROGRAMS[level - 1](draw)
    prompt = f"What does this Python program print?\n\n{text}"
    return Question(prompt, printed, "number", {"fallbacks": ["boxed", "line"]})


TRACING = Family("tracing", "tracing of short programs", _LADDER, _draw)
