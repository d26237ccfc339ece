"""What a benchmark returns, and how two commands are timed against each other."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One ratio: what was measured, against what, at which size, and the goal; no ratio where there is no peer."""

    what: str
    against: str
    size: str
    ratio: float | None
    goal: str
    reached: bool

    def row(self) -> str:
        """Return the figure as a row of a Markdown table."""
        mark = "yes" if self.reached else "NO"
        ratio = "not measured" if self.ratio is None else f"{self.ratio:.3g}"
        return f"| {self.what} | {self.against} | {self.size} | {ratio} | {self.goal} | {mark} |"


def at_most(what: str, against: str, *, size: str, ratio: float, goal: float) -> Figure:
    """Return a figure that should not exceed its goal."""
    return Figure(what, against, size, ratio, f"<= {goal:g} x", ratio <= goal)


def at_least(what: str, against: str, *, size: str, ratio: float, goal: float) -> Figure:
    """Return a figure that should reach its goal."""
    return Figure(what, against, size, ratio, f">= {goal:g} x", ratio >= goal)


def not_measured(what: str, against: str, *, why: str, goal: float) -> Figure:
    """Return a figure whose peer cannot be had; the reason stands where its size would."""
    return Figure(what, against, why, None, f"<= {goal:g} x", reached=False)


def paired_ratio(ours: Callable[[], object], peer: Callable[[], object], *, pairs: int) -> float:
    """Return the median over interleaved pairs of our seconds by the peer's, after one warm-up of each."""
    ours(), peer()
    return statistics.median([_seconds(ours) / _seconds(peer) for _ in range(pairs)])


def command(arguments: Sequence[str | Path], *, cwd: Path) -> Callable[[], object]:
    """Return a function that runs a command to its end and demands success."""
    # Compiled modules are kept, as wherever canaryd is installed; the warm-up compiles what was not.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run() -> object:
        return subprocess.run(
            [str(each) for each in arguments], cwd=cwd, env=environment, check=True, capture_output=True
        )

    return run


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
