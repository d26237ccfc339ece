"""A run that is told to end asks nothing more, keeps what is in flight, says so, and goes on when run again."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

ITEMS = {
    f"i{n}": {
        "family": "f",
        "cluster": f"c{n}",
        "prompt": f"What is {n} + {n}?",
        "target": str(2 * n),
        "grader": {"type": "exact"},
    }
    for n in range(12)
}
PATIENCE_S = 60.0
IN_FLIGHT = 4
SAID = "canaryd: told to end: no further question is asked, those in flight land; once more ends it at once\n"


class Held:
    """Answers three questions, and holds every further one until it is released."""

    def __init__(self) -> None:
        self.project: Any = None
        self.asked: Counter[str] = Counter()
        self.all_in_flight = threading.Semaphore(0)
        self.released = threading.Event()

    def __call__(self, series: str, _role: str, item_id: str, _request: Any) -> dict[str, Any]:
        if item_id != "pre-flight":
            self.asked[item_id] += 1
            if self.asked.total() > 3 and not self.released.is_set():
                self.all_in_flight.release()
                assert self.released.wait(PATIENCE_S)
        reply: dict[str, Any] = self.project.reply(series, item_id)
        return reply


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_in_flight_lands_and_the_next_run_goes_on(
    canaryd: Any, real_providers: Any, number: signal.Signals
) -> None:
    held = Held()
    project, process = held_run(held, real_providers)
    process.send_signal(number)
    assert process.stderr.readline() == SAID
    held.released.set()
    _, said = process.communicate(timeout=PATIENCE_S)
    assert said.strip() == (
        "canaryd: the slot 2027-01-01 of openai is not complete (tracked: 5 samples not measured (the process was "
        "told to end)); what landed is stored, and the same day canaryd goes on from there"
    )
    assert process.returncode == 130
    assert stored(project) == held.asked.keys()
    again = canaryd("run", "--verbose", "--config", "project/config.toml")
    assert again.code == 0
    assert again.err.count(": answered, stop, ") == 6, "five samples and the trivial task"
    assert held.asked == dict.fromkeys(ITEMS, 1), "nothing is asked twice"
    assert stored(project) == ITEMS.keys()


def test_told_twice_it_ends_at_once_and_what_had_landed_stays(canaryd: Any, real_providers: Any) -> None:
    held = Held()
    project, process = held_run(held, real_providers)
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == SAID
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE_S)[1] == ""
    assert process.returncode == 130
    before = stored(project)
    held.released.set()
    assert canaryd("--config", "project/config.toml", "run").code == 0
    assert stored(project) == ITEMS.keys()
    assert all(held.asked[item] == 1 for item in before), "what had landed is not asked again"


def held_run(held: Held, real_providers: Any) -> tuple[Any, Any]:
    """Return a project and its run, once as many questions as may be are in flight."""
    project = held.project = real_providers(held, items=ITEMS, timeout_s=PATIENCE_S)
    (project.folder / "key").write_text("planted-key")
    arm = project.arm("openai", "tracked", credential="key", concurrency=IN_FLIGHT)
    project.write({"openai": [arm]}, head='[credentials]\nkey_file = "key"')
    project.set_clock(1)
    command = [sys.executable, "-m", "canaryd", "--config", "config.toml", "run"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(project.folder)}
    process = subprocess.Popen(command, cwd=project.folder, env=environment, stderr=subprocess.PIPE, text=True)
    for _ in range(IN_FLIGHT):
        assert held.all_in_flight.acquire(timeout=PATIENCE_S)
    return project, process


def stored(project: Any) -> set[str]:
    """Return the items that have a score."""
    with closing(sqlite3.connect(project.folder / "canaryd.db")) as connection:
        return {item for (item,) in connection.execute("SELECT item_id FROM sample WHERE score = 1.0")}
