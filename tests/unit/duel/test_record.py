"""The judged record is the state of a duel: it reads back as it was written, up to the last whole line."""

import json
from dataclasses import replace

import pytest

from canaryd.duel.model import Question, SubstrateFault
from canaryd.duel.pairing import cut, in_order, owed
from canaryd.duel.record import parse_record, retrievals_of, to_line
from canaryd.errors import ConfigError, MeasurementRefused

QUESTION = Question("q1", "f", "why?")


def written(entries, duel="sha256:d"):
    return b"".join(to_line(entry, duel=duel) for entry in entries)


def test_a_round_trip(judged, unjudged):
    first, *_ = judged(QUESTION, ("a", "tie", "b", "a"))
    entries = [
        first,
        replace(first, cost_usd_estimate=0.25, resolved_model="m-1", rationale='said "so"\nand more'),
        unjudged(QUESTION),
        SubstrateFault("q2", "f", "b", "right", "HTTP 500"),
    ]
    assert parse_record(written(entries), duel="sha256:d", source="r") == entries


def test_the_keys_of_schema_v1(judged):
    row = json.loads(written(judged(QUESTION, ("a",) * 4)[:1]))
    assert row.keys() - {"schema_version", "duel"} == {
        "question_id",
        "family",
        "judge",
        "ordering",
        "substrate_a_id",
        "substrate_b_id",
        "retrieval_a",
        "retrieval_b",
        "winner",
        "label_a",
        "label_b",
        "judge_rationale",
        "elapsed_ms",
    }


def test_a_line_that_was_cut_off_is_no_entry(judged):
    entries = judged(QUESTION, ("a",) * 4)
    data = written(entries)
    assert parse_record(data[:-1], duel="sha256:d", source="r") == entries[:-1]
    assert parse_record(data[:40], duel="sha256:d", source="r") == []


def test_a_line_of_another_duel_or_another_form_is_refused(judged):
    data = written(judged(QUESTION, ("a",) * 4))
    with pytest.raises(MeasurementRefused, match=r"r: holds judgements of sha256:d, but this duel is registered"):
        parse_record(data, duel="sha256:e", source="r")
    for old, new in ((b'"winner":"a"', b'"winner":"c"'), (b'"schema_version":1', b'"schema_version":2')):
        with pytest.raises(ConfigError, match="r:1: "):
            parse_record(data.replace(old, new), duel="sha256:d", source="r")


def test_what_is_owed_is_what_is_not_recorded(judged, unjudged, judges):
    other, third = Question("q2", "f", "how?"), Question("q3", "f", "who?")
    recorded = [*judged(QUESTION, ("a",) * 4)[:3], unjudged(QUESTION), SubstrateFault("q3", "f", "a", "left", "x")]
    left = owed([QUESTION, other, third], recorded, judges=judges)
    assert [(each.question.id, len(each.turns)) for each in left] == [("q2", 4)]
    fewer = owed([QUESTION], recorded[:2], judges=judges)
    assert [(turn.judge, turn.ordering) for turn in fewer[0].turns] == [(judges[1], "a_first"), (judges[1], "b_first")]


def test_retrievals_are_those_of_the_first_judgement(judged):
    first, second, *_ = judged(QUESTION, ("a",) * 4)
    later = replace(second, retrievals=replace(second.retrievals, a="other"))
    assert retrievals_of([first, later])["q1"].a == "aa"
    assert in_order(first.retrievals, "b_first") == ("b", "aa")


def test_both_substrates_are_cut_alike_and_half_a_character_does_not_break_the_record():
    assert len(cut("x" * 5000, tokens=300)) == 1200
    assert cut("a\ud800b", tokens=9) == "a?b"
