"""`canaryd regrade` as a user meets it: identical as a rule, 65 when a grade differs, nothing overwritten."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from canaryd.store.engine import open_store
from canaryd.store.retention import expire_texts

SIMULATED = """
[store]
url = "sqlite:///canaryd.db"
[[series]]
name = "main"
panel = "panel/mine.jsonl"
[[series.arm]]
name = "tracked"
role = "tracked"
provider = "simulated"
model = "large"
"""


@pytest.fixture
def store_file(canaryd: Any, tmp_path: Path) -> Path:
    """The store of a project on the simulated provider, with one measured day."""
    assert canaryd("init", "project").code == 0
    (tmp_path / "project/config.toml").write_text(SIMULATED)
    path, families = "project/panel/mine.jsonl", "arith,modular,bases,calendar,fidelity"
    assert canaryd("panel", "generate", path, "--seed", "s", "--size", "60", "--families", families).code == 0
    assert canaryd("panel", "freeze", path).code == 0
    for command in (["db", "upgrade"], ["register", "--start", "today"], ["run"]):
        done = canaryd("--config", "project/config.toml", *command)
        assert done.code == 0, done.err
    return tmp_path / "project/canaryd.db"


def regrade(canaryd: Any, *arguments: str) -> Any:
    return canaryd("--config", "project/config.toml", "regrade", *arguments)


def touch_a_grade(store_file: Path) -> tuple[str, float]:
    """Change one stored grade behind the store's back; return its item and the score that it had."""
    with sqlite3.connect(store_file) as connection:
        connection.execute("DROP TRIGGER sample_no_update")
        sample_id, item_id, score = connection.execute(
            "SELECT sample_id, item_id, score FROM sample WHERE score > 0.5 ORDER BY sample_id LIMIT 1"
        ).fetchone()
        connection.execute("UPDATE sample SET score = 0, passed = 0 WHERE sample_id = ?", (sample_id,))
    connection.close()
    return item_id, score


def test_identical_is_the_rule(canaryd: Any, store_file: Path) -> None:
    done = regrade(canaryd)
    assert done.code == 0, done.err
    assert "main: 60 replies with a grade" in done.out
    assert "  identical  60\n  different  0\n" in done.out
    assert regrade(canaryd, "--since", "2999-01-01", "--json").json["series"][0]["replies"] == 0


def test_a_difference_is_listed_and_exits_65(canaryd: Any, store_file: Path) -> None:
    item_id, score = touch_a_grade(store_file)
    done = regrade(canaryd, "--json", "--series", "main")
    assert (done.code, "1 of 60 stored replies are graded otherwise" in done.err) == (65, True), done.err
    (series,) = done.json["series"]
    assert (series["replies"], series["identical"], series["format_moves"]) == (60, 59, [])
    (difference,) = series["differences"]
    assert (difference["item_id"], difference["arm"]) == (item_id, "tracked")
    assert (difference["old"]["score"], difference["new"]["score"]) == (0, score)
    assert difference["old"]["grader"] == difference["new"]["grader"]
    again = regrade(canaryd)
    assert again.code == 65
    assert f"tracked {item_id} #0: 0 (" in again.out
    connection = sqlite3.connect(store_file)
    assert connection.execute("SELECT count(*), sum(differing) FROM regrade").fetchone() == (2, 2)
    assert connection.execute("SELECT score FROM sample WHERE item_id = ?", (item_id,)).fetchone() == (0.0,)
    connection.close()


def test_expired_texts_are_said_and_counted(canaryd: Any, store_file: Path) -> None:
    with open_store(f"sqlite:///{store_file}") as store:
        assert expire_texts(store, "main", before=date.max, now=datetime.now(UTC)) == 60
    done = regrade(canaryd)
    assert (done.code, "  expired    60 (their text is no longer stored)" in done.out) == (0, True), done.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--series", "other"], 64, "'other' is not registered"),
        (["--since", "yesterday"], 64, "does not match the format"),
    ],
)
def test_mistakes_get_one_sentence(canaryd: Any, store_file: Path, arguments: list[str], code: int, said: str) -> None:
    refused = regrade(canaryd, *arguments)
    assert (refused.code, said in refused.err) == (code, True), refused.err
