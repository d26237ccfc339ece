"""The example's fixture asks about sections that exist, and its judges judge by them."""

import json

import pytest

from canaryd.duel.example import corpus, questions, search_lines, search_sections
from canaryd.duel.judge import parse_judgement, prompt_of
from canaryd.duel.simulated import SimulatedJudge


def test_every_question_names_a_section_of_the_documentation():
    sections = {passage.doc_id for passage in corpus()}
    asked = questions()
    assert len(asked) == 64
    assert {one.expected_doc_id for one in asked} <= sections
    sizes = {family: sum(one.family == family for one in asked) for family in ("registration", "duel", "compare")}
    assert sizes == {"registration": 24, "duel": 24, "compare": 16}


@pytest.mark.parametrize("search", [search_lines, search_sections])
def test_both_searches_find_most_sections_and_say_nothing_to_nonsense(search):
    found = [one.expected_doc_id in search(one.query) for one in questions()]
    assert sum(found) > 0.7 * len(found)
    assert search("qqqq zzzz") == ""


def test_a_simulated_judge():
    documents = {"why?": "page#one"}
    judge = SimulatedJudge("m")

    def judged(first, second, by=judge):
        return parse_judgement(by.answer(prompt_of("why?", (first, second)), documents))

    assert judged("[page#one] x", "[page#two] y").winner == "first"
    assert (judged("", "[page#two]").label_first, judged("", "[page#two]").winner) == ("abstained", "second")
    assert judged("[page#one]", "[page#one] more").winner == "tie"
    assert judged("", "[page#one]", SimulatedJudge("m", first_bias=1.0)).winner == "first"
    assert judged("", "[page#one]", SimulatedJudge("m", rambling=1.0)) is None
    assert json.loads(judge.answer(prompt_of("other?", ("a", "b")), documents))["winner"] == "tie"
