"""200 random kill -9 points: nothing acknowledged is lost, nothing is there twice, and the verdicts are the same.

The script and the seed are `kill_points.py` and its default, so that a failure can be played again by hand.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.soak
HERE = Path(__file__).parent
KILLS = 204
WHOLE = {
    "lost": 0,
    "asked_again": 0,
    "answered_twice": 0,
    "stored": 12 * 90,
    "samples": 12 * 90,
    "same_samples": True,
    "verdicts": 2,
    "same_verdicts": True,
    "integrity": "ok",
    "ledger": None,
}


def play(folder: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """Run the script and return what it printed."""
    done = subprocess.run(
        [sys.executable, str(HERE / "kill_points.py"), str(folder), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that keeps each file as of its last fsync."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build fsync_shim.c with")
    library = tmp_path_factory.mktemp("shim") / "fsync_shim.so"
    source = str(HERE / "fsync_shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), source], check=True)
    return library


def test_kills(tmp_path: Path) -> None:
    found = play(tmp_path, "--kills", str(KILLS))
    assert found.pop("kills") == KILLS
    assert found.pop("runs") > 50
    assert found == WHOLE


def test_kills_that_take_away_what_was_not_synced(tmp_path: Path, shim: Path) -> None:
    found = play(tmp_path, "--kills", str(KILLS), "--power-cut", SYNCED_UNDER=str(tmp_path), LD_PRELOAD=str(shim))
    assert found.pop("kills") == KILLS
    assert found.pop("runs") > 50
    assert found == WHOLE


def test_such_a_kill_is_seen_where_commits_are_not_synced(tmp_path: Path, shim: Path) -> None:
    few = ("--kills", "12", "--power-cut", "--normal")
    assert play(tmp_path, *few, SYNCED_UNDER=str(tmp_path), LD_PRELOAD=str(shim))["lost"] > 0
