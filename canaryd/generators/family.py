"""The interface of a generator family: one kind of question at a ladder of difficulties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from canaryd.generators.draw import Draw
from canaryd.records import JsonValue

#: Every family has the levels 1 (easiest) to LEVELS.
LEVELS = 4


@dataclass(frozen=True, slots=True)
class Question:
    """What a family draws: the question, its target, and the grader that compares the two.

    `template` names the template, where a level of the family has several.
    """

    prompt: str
    target: JsonValue
    grader: str
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    template: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One member of the FAMILIES table. `ladder` says what each level asks; `draw` makes a question of a level."""

    name: str
    summary: str
    ladder: tuple[str, ...]
    draw: Callable[[Draw, int], Question]
