"""Resident memory of an idle daemon after a run, against a process that imports sqlalchemy and prometheus_client."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks import measured_days
from benchmarks.figures import Figure, at_most
from canaryd.config import parse
from canaryd.demo.server import free_port
from canaryd.store import read
from canaryd.store.engine import open_store

#: structlog loads these where it finds them; only the development tools bring them, so an installed daemon has none.
DAEMON = "import sys; sys.modules.update(rich=None, colorama=None); from canaryd.cli import main; main()"
PEER = "import sqlalchemy, prometheus_client; print(flush=True); input()"
PATIENCE_S = 120.0


def figures(*, smoke: bool) -> list[Figure]:
    """Return the ratio of resident memories; each pair starts both processes anew and measures one more day."""
    items, pairs = (24, 1) if smoke else (72, 5)
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measured_days.fill(folder, days=1, items=items)
        for day in range(1, pairs + 1):
            with idle_daemon(folder, day) as ours, idle_peer() as peer:
                ratios.append(resident_kib(ours) / resident_kib(peer))
    return [
        at_most(
            "Idle daemon after a run, resident memory",
            "a process that imports sqlalchemy and prometheus_client",
            size=f"1 series, {items} items, 2 arms, no development tools; {pairs} pairs",
            ratio=statistics.median(ratios),
            goal=1.5,
        )
    ]


@contextmanager
def idle_daemon(folder: Path, day: int) -> Iterator[int]:
    """Yield the process id of a daemon that has measured a day in a child, was scraped, and has nothing more to do."""
    slot = measured_days.START + timedelta(days=day)
    (folder / "clock.txt").write_text(f"{slot.isoformat()}T03:10:00+00:00\n")
    port = free_port()
    command = [sys.executable, "-c", DAEMON, "--config", "config.toml", "daemon"]
    command += ["--web.listen-address", f"127.0.0.1:{port}"]
    env = os.environ | {"HOME": str(folder)}
    with (folder / "daemon.log").open("w") as log:
        daemon = subprocess.Popen(command, cwd=folder, stderr=log, env=env)
    try:
        _wait_for(lambda: _completed_runs(folder) == 2 * (day + 1) and not _children(daemon.pid), daemon)
        ticked = _last_tick(port)
        _wait_for(lambda: _last_tick(port) not in {ticked, None}, daemon)
        yield daemon.pid
    finally:
        daemon.terminate()
        daemon.wait()


@contextmanager
def idle_peer() -> Iterator[int]:
    """Yield the process id of a process that has done its imports."""
    with subprocess.Popen([sys.executable, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as peer:
        assert peer.stdout is not None
        peer.stdout.readline()
        yield peer.pid
        peer.communicate(b"\n")


def resident_kib(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])


def _completed_runs(folder: Path) -> int:
    config = parse(measured_days.CONFIG, path=folder / "config.toml")
    with open_store(config.store_url) as store, store.read() as connection:
        runs = read.runs(connection, "bench")
    return sum(run.end is not None and run.end.outcome == "completed" for run in runs)


def _children(pid: int) -> str:
    return "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))


def _last_tick(port: int) -> str | None:
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
            page = response.read().decode()
    except URLError:
        return None
    found = re.search(r"^canaryd_scheduler_last_tick_timestamp_seconds (.+)$", page, re.MULTILINE)
    return found[1] if found else None


def _wait_for(is_so: Callable[[], bool], daemon: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert daemon.poll() is None, "the daemon ended; its log is daemon.log of the folder"
        assert time.monotonic() < deadline_s, f"the daemon did not get there in {PATIENCE_S:g} s"
        time.sleep(0.2)
