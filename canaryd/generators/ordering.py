"""Ordering puzzles whose solution is unique: every order is tried, and no clue can be left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

from canaryd.generators.draw import Draw
from canaryd.generators.family import Family, Question

_NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Iris", "Jon", "Kira", "Leo", "Mona", "Nils")
_RUNNERS = (3, 4, 5, 6)
_LADDER = tuple(f"{count} runners" for count in _RUNNERS)
_PLACES = ("first", "second", "third", "fourth", "fifth", "sixth")

Order = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clue:
    """A sentence about an order, and whether it is true of one."""

    text: str
    holds: Callable[[Order], bool]


def _clue(draw: Draw, order: Order) -> Clue:
    """Return a clue that is true of an order."""
    one, other = sorted(draw.sample(range(len(order)), 2))
    first, second = order[one], order[other]
    kind = draw.below(4)
    if kind == 0:
        return Clue(f"{first} finished before {second}.", lambda o: o.index(first) < o.index(second))
    if kind == 1 and other == one + 1:
        return Clue(f"{second} finished directly after {first}.", lambda o: o.index(second) == o.index(first) + 1)
    if kind == 2:
        between = other - one - 1
        runners = "No runner" if between == 0 else f"Exactly {between} runner" + "s" * (between > 1)
        return Clue(
            f"{runners} finished between {first} and {second}.",
            lambda o: abs(o.index(first) - o.index(second)) == between + 1,
        )
    missed = draw.choice([place for place in range(len(order)) if place != other])
    return Clue(f"{second} did not finish {_PLACES[missed]}.", lambda o: o.index(second) != missed)


def solutions(names: Order, clues: list[Clue]) -> list[Order]:
    """Return every order of the names in which all clues hold."""
    return [order for order in permutations(names) if all(clue.holds(order) for clue in clues)]


def _draw(draw: Draw, level: int) -> Question:
    """Return a puzzle; the target is the initials in the order of finishing."""
    order = tuple(draw.sample(_NAMES, _RUNNERS[level - 1]))
    clues: list[Clue] = []
    while solutions(order, clues) != [order]:
        clue = _clue(draw, order)
        if clue.text not in [known.text for known in clues]:
            clues.append(clue)
    for clue in list(clues):
        fewer = [one for one in clues if one is not clue]
        if solutions(order, fewer) == [order]:
            clues = fewer
    listed = "\n".join(f"- {clue.text}" for clue in clues)
    prompt = (
        f"{', '.join(sorted(order)[:-1])} and {max(order)} ran a race; no two finished together.\n{listed}\n"
        "In which order did they finish? Answer with their initials from first to last, without spaces."
    )
    target = "".join(name[0] for name in order)
    return Question(prompt, target, "exact", {"ignore_case": True, "strip": ".", "fallbacks": ["boxed", "line"]})


ORDERING = Family("ordering", "ordering puzzles with one solution", _LADDER, _draw)
