"""Files that are not what they should be: one sentence with the file and the line."""

from pathlib import Path

import pytest

from canaryd.compare.rows import read_rows
from canaryd.compare.side import build_side
from canaryd.errors import CanarydError

GOOD = "item_id,score\na,1\nb,0\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("f.csv", "", "f.csv: holds no row"),
        ("f.csv", "item_id,score\n", "f.csv: holds no row"),
        ("f.csv", "\n\n", "f.csv: holds no row"),
        ("f.csv", "item_id,points\na,1\n", "f.csv:1: there is no column score (there is item_id, points)"),
        ("f.csv", "question,score\na,1\n", "f.csv:1: there is no column item_id or id or item"),
        ("f.csv", "item_id,score,score\na,1,0\n", "f.csv:1: the column 'score' stands twice"),
        ("f.csv", GOOD + "c,NaN\n", "f.csv:4: score is 'NaN', but must be a number between 0 and 1"),
        ("f.csv", GOOD + "c,inf\n", "f.csv:4: score is 'inf'"),
        ("f.csv", GOOD + "c,73\n", "f.csv:4: score is '73'"),
        ("f.csv", GOOD + "c,good\n", "f.csv:4: score is 'good'"),
        ("f.csv", GOOD + "c,1,2\n", "f.csv:4: has 3 cells under 2 columns"),
        ("f.csv", GOOD + ",1\n", "f.csv:4: item_id is empty"),
        ("f.csv", "item_id,score,replicate\na,1,0\na,0,0\n", "f.csv:3: replicate '0' of item 'a' comes twice"),
        ("f.csv", "item_id,score,sentinel\na,1,0\nb,1,2\n", "f.csv:3: sentinel is '2', but must be 1 or true"),
        ("f.csv", "item_id,score,sentinel\na,1,maybe\n", "f.csv:2: sentinel is 'maybe', but must be 1 or true"),
        ("f.jsonl", '{"item_id": "a", "score": NaN}\n', "f.jsonl:1: score is nan"),
        ("f.jsonl", '{"item_id": "a", "score": 1}\n{"item_id": null, "score": 1}\n', "f.jsonl:2: item_id is empty"),
        ("f.jsonl", '{"item_id": "a", "score": [1]}\n', "f.jsonl:1: score is [1]"),
        ("f.jsonl", "[1, 2]\n", "f.jsonl:1: is JSON, but no object"),
        ("f.jsonl", '{"item_id": "a",\n', "f.jsonl:1: this is not valid JSON"),
        ("f.parquet", "no parquet", "f.parquet: cannot be read as Parquet"),
        ("f.json", "[]", "f.json: a file that ends in '.json' is of no known kind"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, name: str, content: str, said: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(CanarydError) as refused:
        build_side(read_rows(file), names={})
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_numbers_and_texts_that_say_the_same_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "f.jsonl"
    file.write_text('{"item_id": 1, "score": 1}\n{"item_id": "2", "score": "0.5"}\n{"item_id": 3, "score": true}\n')
    side = build_side(read_rows(file), names={})
    assert [(answer.item_id, answer.score) for answer in side.answers] == [("1", 1.0), ("2", 0.5), ("3", 1.0)]
