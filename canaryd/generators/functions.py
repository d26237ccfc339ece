"""Short functions with hidden tests."""

from __future__ import annotations

import re

from canaryd.generators.draw import Draw
from canaryd.generators.family import Family, Question
from canaryd.generators.function_bank import BANK
from canaryd.records import JsonValue

#: Hidden calls per function.
CALLS = 12
_LADDER = (
    "one expression",
    "a small loop or a corner case",
    "a loop with state",
    "dynamic programming",
)


def _draw(draw: Draw, level: int) -> Question:
    """Return a function to write; the target holds a solution and what the hidden calls must return."""
    template = BANK[level - 1][draw.turn % len(BANK[level - 1])]
    k = draw.between(template.low, template.high)
    head = f"def {template.name}({template.signature}):"
    prompt = (
        f"Write a Python function that {_filled(template.task, k)}.\nIts first line is: {head}\n"
        "The answer is the source of this function alone; it may use the standard library."
    )
    calls: dict[str, list[JsonValue]] = {}
    while len(calls) < CALLS:
        arguments = template.arguments(draw)
        calls.setdefault(repr(arguments), arguments)
    tests: list[JsonValue] = [
        {"args": arguments, "returns": template.expected(k, *arguments)} for arguments in calls.values()
    ]
    target: JsonValue = {"solution": f"{head}\n{_filled(template.solution, k)}", "tests": tests}
    options: dict[str, JsonValue] = {"entry": template.name, "fallbacks": ["fence"]}
    return Question(prompt, target, "code", options, template=template.name)


def _filled(text: str, k: int) -> str:
    """Return a text in which K is the parameter."""
    return re.sub(r"\bK\b", str(k), text.strip("\n"))


FUNCTIONS = Family("functions", "short functions with hidden tests", _LADDER, _draw)
