"""Judgements of planted duels."""

from collections.abc import Callable

import pytest

from canaryd.duel.model import ORDERINGS, Judged, Question, Retrievals, Thresholds, Unjudged, Winner

JUDGES = ("one:m:1", "two:n:1")


@pytest.fixture
def judges() -> tuple[str, str]:
    return JUDGES


@pytest.fixture
def thresholds() -> Thresholds:
    return Thresholds(
        min_gap=0.2,
        min_fabrication_ratio=2,
        min_fabrications_against_zero=3,
        confidence=0.95,
        max_unjudged_share=0.05,
        bootstrap_draws=200,
        max_anchors_moved=1,
    )


@pytest.fixture
def judged() -> Callable[..., list[Judged]]:
    """The four judgements of one question; `said` are the winners by judge one in both orders, then by judge two."""

    def build(question: Question, said: tuple[Winner, ...], labels=("correct", "correct"), texts=("aa", "b")):
        turns = [(judge, ordering) for judge in JUDGES for ordering in ORDERINGS]
        return [
            Judged(
                question_id=question.id,
                family=question.family,
                judge=judge,
                ordering=ordering,
                substrate_a_id="left",
                substrate_b_id="right",
                retrievals=Retrievals(*texts),
                winner=winner,
                label_a=labels[0],
                label_b=labels[1],
                rationale="",
                elapsed_ms=5,
            )
            for (judge, ordering), winner in zip(turns, said, strict=True)
        ]

    return build


@pytest.fixture
def unjudged() -> Callable[[Question], Unjudged]:
    def build(question: Question) -> Unjudged:
        return Unjudged(
            question.id, question.family, JUDGES[1], "b_first", "left", "right", Retrievals("aa", "b"), "empty, 2 times"
        )

    return build
