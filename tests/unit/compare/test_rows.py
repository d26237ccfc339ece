"""Result files: what is read, and the sentence where one cannot be."""

import builtins
from pathlib import Path

import pytest

from canaryd.compare.rows import as_text, read_rows, select
from canaryd.errors import ConfigError, UsageError


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_csv_with_a_byte_order_mark_quotes_and_empty_lines(tmp_path):
    path = write(tmp_path, "r.csv", '\ufeffitem_id,score,target\r\na,1,"yes, or\nno"\r\n\r\nb,,x\r\n')
    rows = read_rows(path)
    assert [dict(row.values) for row in rows] == [
        {"item_id": "a", "score": "1", "target": "yes, or\nno"},
        {"item_id": "b", "score": "", "target": "x"},
    ]
    assert [row.where for row in rows] == [f"{path}:3", f"{path}:5"]


def test_tsv_and_json_lines(tmp_path):
    assert read_rows(write(tmp_path, "r.tsv", "id\tscore\na\t1\n"))[0].values == {"id": "a", "score": "1"}
    path = write(tmp_path, "r.jsonl", '{"id": "a\u2028b", "score": true}\n\n{"id": 7}\n')
    assert [(row.where, dict(row.values)) for row in read_rows(path)] == [
        (f"{path}:1", {"id": "a\u2028b", "score": True}),
        (f"{path}:3", {"id": 7}),
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("r.csv", "", "holds no row"),
        ("r.csv", "item_id,score\n", "holds no row"),
        ("r.csv", "item_id,score\na\n", "r.csv:2: has 1 cells under 2 columns"),
        ("r.csv", "score,score\n1,1\n", "the column 'score' stands twice"),
        ("r.csv", 'item_id,score\n"a,1\n', "not valid CSV"),
        ("r.jsonl", '[{"id": "a"}]\n', "r.jsonl:1: is JSON, but no object"),
        ("r.jsonl", '{"id": "a"}\n{"id"\n', "r.jsonl:2: this is not valid JSON"),
        ("r.parquet", "no parquet at all", "arquet"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, name, text, said):
    with pytest.raises((ConfigError, UsageError)) as refused:
        read_rows(write(tmp_path, name, text))
    assert said in str(refused.value)


def test_an_unknown_kind_and_a_missing_file(tmp_path):
    with pytest.raises(UsageError, match=r"ends in '.xlsx' is of no known kind"):
        read_rows(tmp_path / "r.xlsx")
    with pytest.raises(ConfigError, match="No such file"):
        read_rows(tmp_path / "r.csv")


def test_parquet_without_its_package(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **keywords):
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError(name=name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"needs the package pyarrow.*install canaryd\[parquet\]"):
        read_rows(write(tmp_path, "r.parquet", "x"))


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="the optional package pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "r.parquet"
    parquet.write_table(pyarrow.table({"id": ["a", "b"], "score": [1.0, None]}), path)
    assert [(row.where, dict(row.values)) for row in read_rows(path)] == [
        (f"{path}:1", {"id": "a", "score": 1.0}),
        (f"{path}:2", {"id": "b", "score": None}),
    ]


def test_selecting_names_what_a_column_holds(tmp_path):
    path = write(tmp_path, "r.csv", "item_id,model,score\na,m-1,1\na,m-2,0\n")
    rows = read_rows(path)
    assert [row.values["score"] for row in select(rows, {"model": "m-2"}, path=path)] == ["0"]
    with pytest.raises(UsageError, match=r"model = 'm-3' \(it holds m-1, m-2\)"):
        select(rows, {"model": "m-3"}, path=path)
    with pytest.raises(UsageError, match="there is no such column"):
        select(rows, {"snapshot": "x"}, path=path)


def test_values_that_are_no_text_compare_as_json():
    assert [as_text(value) for value in (7, 0.5, False, None, ["a"])] == ["7", "0.5", "false", "", '["a"]']
