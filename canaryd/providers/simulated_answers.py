"""A right and a wrong answer text for a panel item (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from string import ascii_uppercase

from canaryd.errors import ConfigError
from canaryd.graders import grade, right_reply
from canaryd.records import Item


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Reply texts for one item: its grader passes `right` and does not pass `wrong`."""

    right: str
    wrong: str


def answer_pair(item: Item) -> AnswerPair:
    """Return the two reply texts of an item, both tried on its own grader where that is no judge.

    Raises:
        ConfigError: the item's target does not determine a right answer, or none of the wrong ones is read as wrong.
    """
    right = right_reply(item)
    if item.is_judged:
        return AnswerPair(right=right, wrong="<answer>I cannot say.</answer>")
    if right is None or not grade(item, right).passed:
        raise ConfigError(
            f"item {item.item_id!r}: the simulated provider cannot answer it, because its target and grader "
            f"{item.grader.type!r} do not determine a right answer; leave it out of a simulated panel"
        )
    answer = right.removeprefix("<answer>").removesuffix("</answer>")
    graded = {text: grade(item, text) for text in (f"<answer>{wrong}</answer>" for wrong in _wrong_answers(answer))}
    wrong = min((text for text in graded if graded[text].answered), key=lambda text: graded[text].score, default=right)
    if wrong == right or graded[wrong].passed:
        raise ConfigError(
            f"item {item.item_id!r}: the simulated provider found no wrong answer that grader {item.grader.type!r} "
            "reads as wrong; leave it out of a simulated panel"
        )
    return AnswerPair(right=right, wrong=wrong)


def _wrong_answers(answer: str) -> Iterator[str]:
    """Yield answers of other kinds: every digit changed, one letter, a far number, no character in common."""
    if re.search(r"\d", answer):
        yield re.sub(r"\d", lambda digit: str((int(digit[0]) + 5) % 10), answer)
    yield from ("271828", "-314159", *ascii_uppercase)
    yield "".join("#" if character == "~" else "~" for character in answer)
