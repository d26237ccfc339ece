"""`canaryd compare` as a process, on files."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
PRIME = SHARED / "data" / "llmdrift_prime.csv"
real_data = pytest.mark.skipif(not PRIME.exists(), reason=f"the published data set is not at {PRIME}")


def write(path: Path, scores: list[int]) -> Path:
    path.write_text("item,score\n" + "".join(f"i{n},{score}\n" for n, score in enumerate(scores)))
    return path


def test_the_published_mcnemar_example(canaryd: Any, tmp_path: Path) -> None:
    before = write(tmp_path / "before.csv", [1] * 18 + [0] * 7)
    after = tmp_path / "after.jsonl"
    after.write_text("".join(json.dumps({"id": f"i{n}", "score": n >= 18}) + "\n" for n in range(25)))
    result = canaryd("compare", before, after, "--json")
    test = result.json["mcnemar"]
    assert (test["lost"], test["won"], test["chi2_cc"]) == (18, 7, 4.0)
    assert test["p_reported"] == pytest.approx(0.0432852, abs=1e-7)
    assert result.json["estimate"]["delta"] == -0.44


@real_data
@pytest.mark.parametrize(
    ("unscored", "pairs", "delta", "se", "lost", "won"),
    [("wrong", 1000, -0.338, 0.0224, 477, 139), ("exclude", 943, -0.3118, 0.0232, 432, 138)],
)
def test_two_snapshots_of_a_real_model(
    canaryd: Any, unscored: str, pairs: int, delta: float, se: float, lost: int, won: int
) -> None:
    chosen = ("--where", "model=gpt-4", "--baseline-where", "snapshot=2023-03-14")
    later = ("--current-where", "snapshot=2023-06-13", "--unscored", unscored)
    result = canaryd("compare", PRIME, PRIME, *chosen, *later, "--json")
    assert result.code == 1
    found = result.json
    assert found["estimate"]["delta"] == pytest.approx(delta, abs=5e-5)
    assert found["estimate"]["se_used"] == pytest.approx(se, abs=5e-5)
    assert found["estimate"]["items_paired"] == pairs
    assert (found["mcnemar"]["lost"], found["mcnemar"]["won"]) == (lost, won)
    tokens = found["tokens"]
    assert [round(100 * share, 1) for share in (tokens["change"], *tokens["ci_item"])] == [-98.3, -98.4, -98.2]
    by_target = {group["group"]: group for group in found["targets"]}
    assert by_target["yes"]["current_mean"] < 0.03
    assert by_target["no"]["current_mean"] > 0.97


def test_the_exit_codes(canaryd: Any, tmp_path: Path) -> None:
    before, same = write(tmp_path / "a.csv", [1, 0] * 50), write(tmp_path / "b.csv", [1, 0] * 50)
    worse, other = write(tmp_path / "c.csv", [0, 0] * 50), write(tmp_path / "d.csv", [1])
    assert [canaryd("compare", before, file).code for file in (same, worse, other)] == [0, 1, 2]
    assert canaryd("compare", before, worse, "--min-effect", "0.6").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["a.csv", "nowhere.csv"], 78, "nowhere.csv: cannot be read (No such file or directory)"),
        (["a.csv", "a.csv", "--where", "model"], 64, "must be written NAME=VALUE"),
        (["a.csv", "a.csv", "--where", "model=x"], 64, "there is no such column"),
        (["a.csv", "a.csv", "--column", "points=x"], 64, "but must name one of item_id, score"),
        (["a.csv", "a.csv", "--column", "score=points"], 64, "there is no column points (there is item, score)"),
        (["a.csv", "a.csv", "--confidence", "1"], 64, "--confidence"),
        (["a.csv", "a.csv", "--confidence", "nan"], 64, "'--confidence': nan is no finite number"),
        (["a.csv", "a.csv", "--headroom-low", "0.9"], 64, "--headroom-low must be below --headroom-high"),
        (["a.csv", "a.csv"], 2, "a.csv: is given on both sides, so nothing can differ"),
    ],
)
def test_mistakes(canaryd: Any, tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    write(tmp_path / "a.csv", [1, 0, 1])
    refused = canaryd("compare", *arguments)
    assert (refused.code, said in refused.err) == (code, True), refused.err


def test_every_number_of_the_judgement_is_an_option_with_its_default(canaryd: Any) -> None:
    text = " ".join(canaryd("compare", "--help").out.split())
    for option, default in (("--confidence", "0.99"), ("--min-effect", "0.03"), ("--min-discordant", "10")):
        assert option in text
        assert f"[default: {default};" in text
