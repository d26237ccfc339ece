"""The script that docs/local-model.md names prints its table from any store, and the page shows what it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from canaryd.generators import FAMILIES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/local-model.md").read_text()
CONFIG = """
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


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells of the table's rows by their first one."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {first: rest for first, *rest in cells if len(rest) == 7}


def passed(cells: list[str]) -> tuple[int, int]:
    """Return the passed and the asked items of a row's four levels."""
    counts = [tuple(map(int, cell.split("/"))) for cell in cells[:4]]
    return sum(one for one, _ in counts), sum(of for _, of in counts)


def test_the_table_is_made_from_a_store(canaryd: Any, tmp_path: Path) -> None:
    assert canaryd("init", "project").code == 0
    (tmp_path / "project/config.toml").write_text(CONFIG)
    path = "project/panel/mine.jsonl"
    assert canaryd("panel", "generate", path, "--seed", "s", "--size", "48", "--families", "arith,bases").code == 0
    assert canaryd("panel", "freeze", path).code == 0
    for command in (["db", "upgrade"], ["register", "--start", "today"], ["run"]):
        done = canaryd("--config", "project/config.toml", *command)
        assert done.code == 0, done.err
    url = f"sqlite:///{tmp_path}/project/canaryd.db"
    script = [sys.executable, "-m", "benchmarks.local_model", url, "--replies", "12"]
    printed = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    table = rows(printed)
    assert set(table) - {"family", "---"} == {"`arith`", "`bases`", "all"}
    assert passed(table["all"])[1] == 48
    assert passed(table["all"])[0] == passed(table["`arith`"])[0] + passed(table["`bases`"])[0] > 0
    assert len(re.findall(r"^(?:arith|bases)-L\d-\d\d: ", printed, re.MULTILINE)) == 12


def test_the_page_accounts_for_every_reply() -> None:
    table = rows(PAGE)
    families = {name for name in table if name.startswith("`")}
    assert families == {f"`{name}`" for name in FAMILIES}
    assert passed(table["all"])[1] == 120
    assert passed(table["all"])[0] == sum(passed(table[name])[0] for name in families)
    for column in (5, 6):
        numbers = [sum(map(int, re.findall(r"\d+", table[name][column]))) for name in (*sorted(families), "all")]
        assert sum(numbers[:-1]) == numbers[-1]


def test_thirty_replies_were_looked_at() -> None:
    looked_at = re.findall(r"^\| `(\w+-L\d-\d\d)` \|", PAGE, re.MULTILINE)
    assert len(looked_at) == len(set(looked_at)) == 30
