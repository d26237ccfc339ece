"""What a benchmark returns, and how two commands are timed against each other."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One ratio: what was measured, against what, at which size, and the goal that it is held against."""

    what: str
    against: str
    size: str
    ratio: float
    goal: str
    reached: bool

    def row(self) -> str:
        """Return the figure as a row of a Markdown table."""
        mark = "yes" if self.reached else "NO"
        return f"| {self.what} | {self.against} | {self.size} | {self.ratio:.3g} | {self.goal} | {mark} |"


def at_most(what: str, against: str, *, size: str, ratio: float, goal: float) -> Figure:
    """Return a figure that should not exceed its goal."""
    return Figure(what, against, size, ratio, f"<= {goal:g} x", ratio <= goal)


def at_least(what: str, against: str, *, size: str, ratio: float, goal: float) -> Figure:
    """Return a figure that should reach its goal."""
    return Figure(what, against, size, ratio, f">= {goal:g} x", ratio >= goal)


def paired_ratio(ours: Callable[[], object], peer: Callable[[], object], *, pairs: int) -> float:
    """Return the median over interleaved pairs of our seconds by the peer's, after one warm-up of each."""
    ours(), peer()
    return statistics.median([_seconds(ours) / _seconds(peer) for _ in range(pairs)])


def command(arguments: Sequence[str | Path], *, cwd: Path) -> Callable[[], object]:
    """Return a function that runs a command to its end and demands success."""

    def run() -> object:
        return subprocess.run([str(each) for each in arguments], cwd=cwd, check=True, capture_output=True)

    return run


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
