"""One side: every value typed or refused with its place."""

from datetime import date

import pytest

from canaryd.compare.rows import Row
from canaryd.compare.side import UNDATED, Answer, build_side
from canaryd.errors import ConfigError, UsageError


def side(*values, names=None):
    return build_side([Row(f"r:{n}", row) for n, row in enumerate(values, start=2)], names=names or {})


def test_every_column():
    read = side(
        {"id": "a", "score": "0.5", "output_tokens": "12", "target": 3, "cluster": "t", "family": "f"},
        {"id": "b", "score": True, "output_tokens": None, "target": "x", "cluster": "t", "family": ""},
    )
    assert read.answers == (Answer("a", UNDATED, 0.5, 12.0), Answer("b", UNDATED, 1.0, None))
    assert not read.dated
    assert (read.clusters, read.families, read.targets) == ({"a": "t", "b": "t"}, {"a": "f"}, {"a": "3", "b": "x"})


def test_sentinels_and_invalid_rows_are_left_out_and_counted():
    measured = {"id": "a", "score": 1, "sentinel": "0", "invalid_reason": ""}
    read = side(
        measured,
        {**measured, "id": "s", "sentinel": "1"},
        {**measured, "id": "t", "sentinel": True, "invalid_reason": "operator"},
        {**measured, "id": "b", "invalid_reason": "operator"},
    )
    assert (read.items, read.sentinels, read.invalid) == ({"a"}, 2, 1)
    with pytest.raises(ConfigError, match="r:2: no row is left without sentinels and invalid rows"):
        side({**measured, "sentinel": 1})


def test_dates_are_utc_days():
    read = side(
        {"item": "a", "score": "", "date": "2027-03-01"},
        {"item": "a", "score": "false", "date": "2027-03-01T23:30:00-02:00"},
        {"item": "a", "score": 1, "date": date(2027, 3, 3)},
    )
    assert [(answer.day.day, answer.score) for answer in read.answers] == [(1, None), (2, 0.0), (3, 1.0)]
    assert read.dated


def test_a_column_under_another_name():
    read = side({"question": "a", "correct": 1}, names={"item_id": "question", "score": "correct"})
    assert read.answers == (Answer("a", UNDATED, 1.0, None),)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"id": "", "score": 1}, "r:2: id is empty"),
        ({"id": "a", "score": "nan"}, "r:2: score is 'nan', but must be a number between 0 and 1"),
        ({"id": "a", "score": float("nan")}, "score is nan"),
        ({"id": "a", "score": 1.5}, "between 0 and 1"),
        ({"id": "a", "score": "B"}, "score is 'B'"),
        ({"id": "a", "score": [1]}, "score is [1]"),
        ({"id": "a", "score": 1, "output_tokens": "1_000"}, "a number of at least 0"),
        ({"id": "a", "score": 1, "output_tokens": -1}, "output_tokens is -1"),
        ({"id": "a", "score": 1, "output_tokens": "inf"}, "output_tokens is 'inf'"),
        ({"id": "a", "score": 1, "cluster": ""}, "cluster is empty, which would lump unrelated items"),
        ({"id": "a", "score": 1, "cluster": None}, "cluster is empty"),
        ({"id": "a", "score": 1, "date": ""}, "date is '', but must be a date"),
        ({"id": "a", "score": 1, "date": "01.03.2027"}, "must be a date such as"),
    ],
)
def test_a_value_that_cannot_be_read(values, said):
    with pytest.raises(ConfigError) as refused:
        side(values)
    assert said in str(refused.value)


def test_rows_that_contradict_each_other():
    with pytest.raises(ConfigError, match=r"r:3: cluster is 'u', but was 't'"):
        side({"id": "a", "score": 1, "cluster": "t"}, {"id": "a", "score": 1, "cluster": "u"})
    with pytest.raises(ConfigError, match=r"r:3: replicate '0' of item 'a' comes twice"):
        side({"id": "a", "score": 1, "replicate": 0}, {"id": "a", "score": 0, "replicate": "0"})
    assert len(side({"id": "a", "score": 1, "replicate": 0}, {"id": "a", "score": 0, "replicate": 1}).answers) == 2


def test_items_that_come_more_often_than_most_are_said():
    rows = [{"id": name, "score": 1} for name in "abcda"]
    assert side(*rows[:4]).warning is None
    assert side(*rows[:4], *rows[:4]).warning is None
    assert str(side(*rows).warning).startswith("r:6: item 'a' comes 2 times, and most items come 1; all count")
    assert side(*[{**row, "replicate": n} for n, row in enumerate(rows)]).warning is None


def test_a_missing_column():
    with pytest.raises(
        UsageError, match=r"r:1: there is no column score \(there is id, passed\); name yours with --column"
    ):
        side({"id": "a", "passed": 1})
    with pytest.raises(UsageError, match="no column when"):
        side({"id": "a", "score": 1}, names={"date": "when"})
