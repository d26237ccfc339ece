"""The fixture: every refusal with its line."""

import json

import pytest

from canaryd.duel.fixture import lint_fixture, parse_anchors, parse_fixture
from canaryd.duel.model import Question
from canaryd.errors import ConfigError

GOOD = {"id": "q1", "family": "f", "query": "why?"}


def lines(*rows):
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()


def test_a_fixture_with_every_key():
    full = {**GOOD, "expected_label": "abstained", "expected_doc_id": "d#1", "notes": "n"}
    assert parse_fixture(lines(full, "", {**GOOD, "id": "q2"}), source="f") == (
        Question("q1", "f", "why?", "abstained", "d#1", "n"),
        Question("q2", "f", "why?"),
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**GOOD, "id": "q1"}, "f.jsonl:2: the id 'q1' stands twice"),
        ({**GOOD, "id": "q2", "query": " "}, 'f.jsonl:2: query is " "'),
        ({**GOOD, "id": "q2", "topic": "x"}, "f.jsonl:2: 'topic' is unknown; allowed: id, family, query"),
        ({**GOOD, "id": "q2", "expected_label": "right"}, "must be one of correct, partial, incorrect"),
        ({**GOOD, "id": "q2", "notes": None}, "notes is null"),
        ({"id": "q2", "query": "x"}, "family is null, but must be a text"),
        ({**GOOD, "id": 2}, "id is 2"),
        ('{"id": "q2", "id": "q3", "family": "f", "query": "x"}', "the key 'id' stands twice"),
        ("[]", "f.jsonl:2: is JSON, but no object"),
        ("{", "f.jsonl:2: is not valid JSON"),
    ],
)
def test_refusals(row, said):
    data = lines(GOOD, row)
    assert len(lint_fixture(data, source="f.jsonl")) == 1
    with pytest.raises(ConfigError) as refused:
        parse_fixture(data, source="f.jsonl")
    assert said in str(refused.value)


def test_lint_lists_all_and_parse_counts_them():
    data = lines(GOOD, "{", {**GOOD, "id": "q2", "query": ""})
    assert [complaint.split(":")[1] for complaint in lint_fixture(data, source="f")] == ["2", "3"]
    with pytest.raises(ConfigError, match=r"f:2: .*\(2 complaints in all"):
        parse_fixture(data, source="f")
    assert lint_fixture(b"\n", source="f") == ["f: holds nothing; write one JSON object on a line"]
    assert "UTF-8" in lint_fixture(b"\xff\n", source="f")[0]


def test_anchors():
    row = {"id": "a1", "query": "x", "retrieval_a": "", "retrieval_b": "t", "winner": "b"}
    anchor, *_ = parse_anchors(lines(row), source="a")
    assert (anchor.retrievals.a, anchor.winner) == ("", "b")
    for wrong in ({**row, "winner": "c"}, {**row, "retrieval_a": None}, {**row, "label": "correct"}):
        with pytest.raises(ConfigError, match="a:1: "):
            parse_anchors(lines(wrong), source="a")
    with pytest.raises(ConfigError, match="holds nothing"):
        parse_anchors(b"", source="a")
