"""Generated panels: the same seed and size give the same bytes on every machine.

Item ids are `<family>-L<level>-<number>`, such as `arith-L3-07`. An item's cluster is its template:
`<family>-L<level>`, followed by the template's name where a level has several.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from canaryd import hashing
from canaryd.generators.arithmetic import ARITHMETIC
from canaryd.generators.bases import BASES
from canaryd.generators.calendar import CALENDAR
from canaryd.generators.draw import Draw
from canaryd.generators.extraction import EXTRACTION
from canaryd.generators.family import LEVELS, Family, Question
from canaryd.generators.fidelity import FIDELITY
from canaryd.generators.functions import FUNCTIONS
from canaryd.generators.instructions import INSTRUCTIONS
from canaryd.generators.modular import MODULAR
from canaryd.generators.ordering import ORDERING
from canaryd.generators.tracing import TRACING
from canaryd.records import JsonValue

__all__ = ["FAMILIES", "SYSTEM_PROMPT", "GeneratedPanel", "commitment", "generate"]

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        member.name: member
        for member in (
            *(ARITHMETIC, MODULAR, BASES, CALENDAR, FIDELITY),
            *(TRACING, ORDERING, INSTRUCTIONS, EXTRACTION, FUNCTIONS),
        )
    }
)

SYSTEM_PROMPT = """\
You are answering one question of a test. You may work it out first. Then write the final answer, and nothing else,
between <answer> and </answer>. Only the last such pair counts.
"""


@dataclass(frozen=True, slots=True)
class GeneratedPanel:
    """The content of a panel's two files."""

    items: bytes
    system: bytes


def generate(
    seed: str,
    *,
    size: int,
    name: str,
    version: str = "1",
    licence: str = "CC0-1.0",
    families: Sequence[str] = tuple(FAMILIES),
) -> GeneratedPanel:
    """Return a panel of `size` items spread evenly over families (given by name), and within a family over levels.

    Raises:
        KeyError: a family does not exist.
        ValueError: the size is below 1, or a family ran out of different questions.

    >>> panel = generate("a seed", size=3, name="tiny")
    >>> [json.loads(line)["id"] for line in panel.items.splitlines()[1:]]
    ['arith-L1-01', 'modular-L1-01', 'bases-L1-01']
    """
    if size < 1:
        raise ValueError("a panel has at least one item")
    header: dict[str, JsonValue] = {
        "name": name,
        "version": version,
        "licence": licence,
        "canary": str(uuid.uuid5(uuid.NAMESPACE_OID, commitment(seed) + name + version)),
        "seed_commitment": commitment(seed),
    }
    lines = [header]
    prompts: set[str] = set()
    for position, family in enumerate(FAMILIES[one] for one in families):
        count = len(range(position, size, len(families)))
        for level in range(1, LEVELS + 1):
            for number in range(1, len(range(level - 1, count, LEVELS)) + 1):
                question = _fresh(family, level, key=(seed, number), prompts=prompts)
                lines.append(_line(family.name, level, number=number, question=question))
    return GeneratedPanel(
        items="".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines).encode(),
        system=SYSTEM_PROMPT.encode(),
    )


def _fresh(family: Family, level: int, *, key: tuple[str, int], prompts: set[str]) -> Question:
    """Return the first question of a stream that was not asked yet, and note it in `prompts`."""
    seed, number = key
    for attempt in range(100):
        question = family.draw(Draw(seed, family.name, level, number, attempt, turn=number + attempt), level)
        if question.prompt not in prompts:
            prompts.add(question.prompt)
            return question
    raise ValueError(f"family {family.name} has no more different questions at level {level}; ask for fewer items")


def _line(family: str, level: int, *, number: int, question: Question) -> dict[str, JsonValue]:
    """Return one item as a line of the panel file."""
    return {
        "id": f"{family}-L{level}-{number:02d}",
        "family": family,
        "cluster": "-".join([family, f"L{level}", *([question.template] if question.template else [])]),
        "prompt": question.prompt,
        "target": question.target,
        "grader": {"type": question.grader, **question.options},
    }


def commitment(seed: str) -> str:
    """Return what may be published before the seed is: a digest that nothing but the seed gives.

    A seed that can be guessed is no secret: use one of at least 128 random bits.
    """
    return hashing.digest(b"canaryd panel seed\n" + seed.encode())
