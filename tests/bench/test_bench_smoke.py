"""Every benchmark in its smallest size: it runs, and what it checks of its own outputs holds; no time is asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem.removeprefix("bench_") for path in (ROOT / "benchmarks").glob("bench_*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs_and_its_outputs_are_right(name: str) -> None:
    results = ROOT / "benchmarks" / "RESULTS.md"
    before = results.read_text() if results.exists() else None
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name, "--smoke"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith(("| yes |", "| NO |"))]
    assert rows, done.stdout
    assert "nan" not in done.stdout
    assert (results.read_text() if results.exists() else None) == before, "a smoke run writes no results"


def test_an_unknown_benchmark_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nothing"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "there is no benchmark nothing" in done.stderr
