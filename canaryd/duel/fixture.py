"""The fixture of paired questions and the anchors beside it, as JSON lines of schema v1."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from canaryd.duel.model import LABELS, WINNERS, Anchor, Question, Retrievals
from canaryd.jsonlines import LineError, new_id, parse_lines, refuse_unknown, require_clean, text_of
from canaryd.wording import counted

#: A variance takes two questions.
LEAST_QUESTIONS = 2
#: Fewer questions in a family, or in a whole fixture, leave an interval that says little: advised, not required.
ADVISED_QUESTIONS = 8
ADVISED_IN_ALL = 60

_KEYS = ("id", "family", "query", "expected_label", "expected_doc_id", "notes")
_ANCHOR_KEYS = ("id", "query", "retrieval_a", "retrieval_b", "winner")


def parse_fixture(data: bytes, *, source: str) -> tuple[Question, ...]:
    """Return the questions of a fixture.

    Raises:
        ConfigError: a line is refused, or there is no question.
    """
    questions, complaints = _questions(data, source)
    require_clean(complaints, lister=f"canaryd duel lint {source}")
    return tuple(questions)


def lint_fixture(data: bytes, *, source: str) -> list[str]:
    """Return every complaint about a fixture, one sentence each; [] is one that can be registered."""
    questions, complaints = _questions(data, source)
    sizes = Counter(question.family for question in questions)
    return complaints or [
        f"{source}: family {family!r} has 1 question, and an interval takes at least {LEAST_QUESTIONS}; add questions "
        "or drop the family"
        for family, size in sizes.items()
        if size < LEAST_QUESTIONS
    ]


def notices_of(questions: Sequence[Question], *, source: str) -> list[str]:
    """Return what is not refused of a fixture and yet makes a duel say less, one sentence each."""
    sizes = Counter(question.family for question in questions)
    notices = [
        f"{source}: family {family!r} has {counted(size, 'question')}; {ADVISED_QUESTIONS} and more are asked for, "
        "because its share of the interval rests on them"
        for family, size in sorted(sizes.items())
        if size < ADVISED_QUESTIONS
    ]
    if len(questions) < ADVISED_IN_ALL:
        notices.append(f"{source}: holds {counted(len(questions), 'question')}; {ADVISED_IN_ALL} and more are advised")
    first: dict[str, str] = {}
    for question in questions:
        before = first.setdefault(" ".join(question.query.split()).casefold(), question.id)
        if before != question.id:
            notices.append(f"{source}: {question.id!r} asks the same as {before!r}, which counts it twice; drop one")
    return notices


def parse_anchors(data: bytes, *, source: str) -> tuple[Anchor, ...]:
    """Return the anchors of a file.

    Raises:
        ConfigError: a line is refused, or there is no anchor.
    """
    seen: set[str] = set()
    anchors, complaints = parse_lines(data, lambda values: _anchor(values, seen), source=source)
    require_clean(complaints or _empty(anchors, source))
    return tuple(anchors)


def _questions(data: bytes, source: str) -> tuple[list[Question], list[str]]:
    seen: set[str] = set()
    questions, complaints = parse_lines(data, lambda values: _question(values, seen), source=source)
    return questions, complaints or _empty(questions, source)


def _empty(found: Sequence[object], source: str) -> list[str]:
    return [] if found else [f"{source}: holds nothing; write one JSON object on a line"]


def _question(values: Mapping[str, Any], seen: set[str]) -> Question:
    refuse_unknown(values, _KEYS)
    return Question(
        id=new_id(values, seen),
        family=text_of(values, "family"),
        query=text_of(values, "query"),
        expected_label=text_of(values, "expected_label", allowed=LABELS) if "expected_label" in values else None,
        expected_doc_id=text_of(values, "expected_doc_id") if "expected_doc_id" in values else None,
        notes=text_of(values, "notes") if "notes" in values else None,
    )


def _anchor(values: Mapping[str, Any], seen: set[str]) -> Anchor:
    refuse_unknown(values, _ANCHOR_KEYS)
    winner = text_of(values, "winner", allowed=WINNERS)
    passages = []
    for key in ("retrieval_a", "retrieval_b"):
        passage = values.get(key)
        if not isinstance(passage, str):
            raise LineError(
                f"{key} is {json.dumps(passage)}, but must be a text (an empty one where nothing was retrieved)"
            )
        passages.append(passage)
    return Anchor(
        id=new_id(values, seen),
        query=text_of(values, "query"),
        retrievals=Retrievals(*passages),
        winner=next(known for known in WINNERS if known == winner),
    )
