"""What counts as an answer of a judge."""

import json

import pytest

from canaryd.duel.judge import RUBRIC, Judgement, parse_judgement, prompt_of
from canaryd.duel.model import LABELS

GOOD = {"label_first": "correct", "label_second": "hallucinated", "winner": "first", "rationale": "because"}


def test_an_answer_with_and_without_a_fence():
    expected = Judgement("first", "correct", "hallucinated", "because")
    assert parse_judgement(json.dumps(GOOD)) == expected
    assert parse_judgement(f"\n```json\n{json.dumps(GOOD, indent=1)}\n```\n") == expected
    assert parse_judgement(json.dumps({**GOOD, "rationale": None})).rationale == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The first is better.",
        f"Sure! {json.dumps(GOOD)}",
        json.dumps([GOOD]),
        json.dumps({**GOOD, "winner": "a"}),
        json.dumps({**GOOD, "winner": ["first"]}),
        json.dumps({**GOOD, "label_second": "fine"}),
        json.dumps({key: value for key, value in GOOD.items() if key != "label_first"}),
        "[" * 100_000,
    ],
)
def test_what_is_no_answer(text):
    assert parse_judgement(text) is None


@pytest.mark.parametrize(("ordering", "winner", "labels"), [("a_first", "a", 0), ("b_first", "b", 1)])
def test_positions_become_substrates(ordering, winner, labels):
    judgement = parse_judgement(json.dumps(GOOD))
    assert judgement.winner_of(ordering) == winner
    assert judgement.labels_of(ordering).index("correct") == labels
    assert parse_judgement(json.dumps({**GOOD, "winner": "tie"})).winner_of(ordering) == "tie"


def test_the_prompt_names_no_substrate_and_the_rubric_every_label():
    prompt = prompt_of("why {x}?", ("one {y}", "two"))
    assert prompt.index("why {x}?") < prompt.index("one {y}") < prompt.index("two")
    assert all(f"- {label}:" in RUBRIC for label in LABELS)
