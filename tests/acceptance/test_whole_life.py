"""A whole life of a series on the simulated provider, by the commands of the README and no other."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()


def block_of(chapter: str) -> str:
    """Return the commands of a chapter of the README, as they stand."""
    (text,) = re.findall(rf"(?ms)^## {chapter}.*?(?=^## )", README)
    (commands,) = re.findall(r"(?ms)^```sh\n(.*?)^```", text)
    return str(commands)


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the chapter was typed, and what it printed."""
    folder = tmp_path_factory.mktemp("life")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["sh", "-c", "set -e\n" + block_of("A whole life")],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "life", done.stdout


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(folder / "canaryd.db")
    found = connection.execute(query).fetchall()
    connection.close()
    return found


def test_a_pool_becomes_a_frozen_panel_by_fresh_samples(life: tuple[Path, str]) -> None:
    folder, printed = life
    kept = int(re.findall(r"(\d+) kept", printed)[0])
    (panel, confirmed) = re.findall(r"^panel +(\d+) items|^  all +(\d+) ", printed, re.MULTILINE)
    assert {int(panel[0] or panel[1]), int(confirmed[0] or confirmed[1])} == {kept}
    assert len((folder / "panel/mine.jsonl").read_text().splitlines()) == kept + 1 > 30
    assert (folder / "panel/mine.lock").exists()
    assert (folder / "design.svg").read_bytes().startswith(b"<?xml")
    assert rows(folder, "SELECT DISTINCT stage FROM study ORDER BY stage") == [("confirm",), ("screen",), ("validate",)]
    assert rows(folder, "SELECT count(*) FROM sample WHERE replicate > 0") == [(0,)]
    assert rows(folder, "SELECT count(*) FROM sample") == [(2 * 40 * kept,)]


def test_the_registration_is_pinned_before_the_first_day(life: tuple[Path, str]) -> None:
    folder, printed = life
    document = (folder / "registration-main.md").read_text()
    pinned = re.findall(r"(?m)^(?:registered main:|  panel).*(sha256:[0-9a-f]{64})", printed)
    assert len(pinned) == 2
    assert all(digest in document for digest in pinned)
    assert "day 1 is 2027-03-01" in document
    assert "worse, swapped" in document
    assert re.search(r"0\.00 %  \(below|% false alarms a year \(below [\d.]+ %, 95 % limit\)", printed)
    assert "not every item is calibrated" not in printed


def test_the_instrument_is_valid_and_sees_the_change(life: tuple[Path, str]) -> None:
    folder, printed = life
    assert "validation of main: passed" in printed
    assert "phi = V_day / V_obs" in printed
    assert "This instrument cannot see most changes smaller than" in printed
    assert "main: measured 2027-03-01 to 2027-04-09, 40 days" in printed
    assert "window 3: change (regression, likely of the model)" in printed
    assert "exit code 1: it changed" in printed
    assert "main: declared regression of" in (folder / "report/main.md").read_text()
    assert (folder / "report/main.html").exists()
    assert "verdicts and 120 early-warning rows agree" in printed
