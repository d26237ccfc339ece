"""Which judgements a duel owes: every question by every judge in both orders, less what is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from canaryd.duel.model import ORDERINGS, Entry, Judged, Ordering, Question, Retrievals, SubstrateFault, Unjudged
from canaryd.judging import ASKED_AT_MOST

#: Tokens are counted as characters / 4 for both substrates, so that no tokenizer decides.
CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Turn:
    """One judgement: which judge sees the pair, and in which order."""

    judge: str
    ordering: Ordering


@dataclass(frozen=True, slots=True)
class Owed:
    """A question with the turns that are not recorded yet."""

    question: Question
    turns: tuple[Turn, ...]


def owed(questions: Sequence[Question], entries: Iterable[Entry], *, judges: Sequence[str]) -> list[Owed]:
    """Return what is still to be judged, in the order of the fixture.

    A question on which a substrate failed owes nothing more.

    >>> [owed([Question("q", "f", "?")], [], judges=["x", "y"])[0].turns[n].ordering for n in range(4)]
    ['a_first', 'b_first', 'a_first', 'b_first']
    """
    recorded: set[tuple[str, str, str]] = set()
    failed: set[str] = set()
    for entry in entries:
        if isinstance(entry, SubstrateFault):
            failed.add(entry.question_id)
        elif isinstance(entry, Judged | Unjudged):
            recorded.add((entry.question_id, entry.judge, entry.ordering))
    left = []
    for question in questions:
        turns = [
            Turn(judge, ordering)
            for judge in judges
            for ordering in ORDERINGS
            if (question.id, judge, ordering) not in recorded
        ]
        if turns and question.id not in failed:
            left.append(Owed(question, tuple(turns)))
    return left


def calls_of(entry: Entry) -> int:
    """Return the fewest judge calls that an entry took."""
    if isinstance(entry, SubstrateFault):
        return 0
    return ASKED_AT_MOST if isinstance(entry, Unjudged) else 1


def cut(text: str, *, tokens: int) -> str:
    """Return the first `tokens` tokens of a retrieved text; half a character, which no file can hold, becomes "?".

    >>> cut("abcdefghij", tokens=2)
    'abcdefgh'
    """
    return text[: CHARACTERS_PER_TOKEN * tokens].encode(errors="replace").decode()


def in_order(retrievals: Retrievals, ordering: Ordering) -> tuple[str, str]:
    """Return the texts as the judge sees them: first, second."""
    pair = retrievals.a, retrievals.b
    return pair if ordering == "a_first" else pair[::-1]
