"""Modular chains: a value carried through steps of arithmetic modulo a small number."""

from __future__ import annotations

from canaryd.generators.draw import Draw
from canaryd.generators.family import Family, Question

_STEPS = (2, 4, 7, 12)
_LADDER = tuple(f"a chain of {steps} steps" for steps in _STEPS)


def _draw(draw: Draw, level: int) -> Question:
    """Return a start value and a chain of steps modulo m; the target is the last value."""
    modulus = draw.between(11, 11 + 30 * level)
    value = start = draw.below(modulus)
    lines: list[str] = []
    for number in range(1, _STEPS[level - 1] + 1):
        repeated = bool(lines) and lines[-1].endswith("it")  # squaring again and again ends at 0 or 1
        operations = ("add", "subtract", "multiply by") if repeated else ("add", "subtract", "multiply by", "square")
        operation, operand = draw.choice(operations), draw.between(2, modulus - 1)
        if operation == "square":
            value = value * value % modulus
            lines.append(f"{number}. square it")
            continue
        value = {"add": value + operand, "subtract": value - operand, "multiply by": value * operand}[
            operation
        ] % modulus
        lines.append(f"{number}. {operation} {operand}")
    prompt = (
        f"Work modulo {modulus}: after every step replace the value by its remainder from 0 to {modulus - 1}.\n"
        f"Start with {start}.\n" + "\n".join(lines) + "\nWhat is the final value?"
    )
    return Question(prompt, value, "number", {"fallbacks": ["boxed", "line"]})


MODULAR = Family("modular", "chains of modular arithmetic", _LADDER, _draw)
