"""Two daemons share the four series of one PostgreSQL store: a stopped one, whose connections are cut, writes nothing
more once it goes on, and of a killed one the other takes over. Real processes, a real server, a calendar in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from daemons import SlowModel, free_port, wait_for, write_sums
from sqlalchemy import Engine, create_engine, text

from canaryd import graders
from canaryd.config import Config, parse
from canaryd.panel import freeze, load
from canaryd.resources import resource
from canaryd.runner.registering import register
from canaryd.store.engine import open_store
from canaryd.store.migrate import upgrade

ITEMS, AT_ONCE, HELD = 8, 5, 2
NAMES = ("one", "two", "three", "four")
DAY_1, DAY_2 = "2027-01-02", "2027-01-03"


class Daemon:
    """One of the daemons."""

    def __init__(self, folder: Path, name: str) -> None:
        self.port = free_port()
        self._log = folder / f"{name}.log"
        command = [sys.executable, "-m", "canaryd", "--config", str(folder / "config.toml"), "daemon"]
        # No folder to keep reports in: drawing them is most of what a child does, and nothing here looks at them.
        environment = os.environ | {"HOME": str(folder), "CACHE_DIRECTORY": os.devnull}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--web.listen-address", f"127.0.0.1:{self.port}"], cwd=folder, stderr=log, env=environment
            )

    def children(self) -> list[int]:
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(each) for thread in threads for each in (thread / "children").read_text().split()]

    def holds(self) -> set[str]:
        """Return the series that it holds; none where it does not answer."""
        return {name for name in NAMES if self.metric(f'canaryd_lease_held{{series="{name}"}}')}

    def metric(self, name: str) -> float | None:
        try:
            page = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=5, trust_env=False).text
        except httpx.TransportError:
            return None
        found = [line for line in page.splitlines() if line.startswith(name + " ")]
        return float(found[0].rpartition(" ")[2]) if found else None

    def log(self) -> str:
        return self._log.read_text()


class Pair:
    """The project, its store, and the daemons on it."""

    def __init__(self, folder: Path, url: str, model: SlowModel) -> None:
        self.folder, self.daemons = folder, list[Daemon]()
        self.engine: Engine = create_engine(url)
        (folder / "held.key").write_text("a-key\n")
        (folder / "prereg.toml").write_text(resource("prereg.example.toml").read_text())
        write_sums(folder, ITEMS)
        frozen = freeze(load(str(folder / "small.jsonl"), graders=graders))
        (folder / "small.lock").write_bytes(frozen)
        self.set_clock("2027-01-01T12:00:00+00:00")
        head = f'[demo]\nclock = "clock.txt"\n[store]\nurl = "{url}"\n[credentials]\nheld_file = "held.key"\n'
        config = head + "".join(series(name, model if name == NAMES[0] else None) for name in NAMES)
        (folder / "config.toml").write_text(config)
        upgrade(url)
        self.register(parse(config, path=folder / "config.toml"))

    def register(self, config: Config) -> None:
        panel = load(str(self.folder / "small.jsonl"), graders=graders)
        with open_store(config.store_url) as store:
            for each in config.series:
                at = datetime(2027, 1, 1, 12, tzinfo=UTC)
                register(each, panel, store=store, now=at, start_date=date(2027, 1, 2))

    def start(self, name: str) -> Daemon:
        self.daemons.append(daemon := Daemon(self.folder, name))
        return daemon

    def set_clock(self, moment: str) -> None:
        (self.folder / "clock.new").write_text(moment + "\n")
        (self.folder / "clock.new").replace(self.folder / "clock.txt")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(query))]

    def completed(self, day: str) -> list[tuple[str, str]]:
        """Return series and arm of every run that was completed on a day."""
        query = "SELECT series, arm FROM run_start JOIN run_end USING (run_id) WHERE outcome = 'completed'"
        return sorted(self.rows(f"{query} AND slot_date = '{day}'"))

    def cut_connections(self) -> None:
        """Kill every backend that serves a process of canaryd."""
        self.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'canaryd'")


def asking(model: SlowModel) -> str:
    return (
        f'provider = "openai"\nmodel = "large"\nbase_url = "{model.base_url}"\ncredential = "held"\n'
        f"concurrency = {HELD}\ntimeout_s = 300\n"
    )


def series(name: str, model: SlowModel | None) -> str:
    simulated = 'provider = "simulated"\nmodel = "{}"\n'
    return (
        f'[[series]]\nname = "{name}"\npanel = "small.jsonl"\n'
        f'[[series.arm]]\nname = "tracked"\nrole = "tracked"\n{asking(model) if model else simulated.format("large")}'
        f'[[series.arm]]\nname = "control"\nrole = "control"\n{simulated.format("small")}'
    )


@pytest.fixture
def model() -> Iterator[SlowModel]:
    made = SlowModel(at_once=AT_ONCE, held=HELD)
    yield made
    made.close()


@pytest.fixture
def pair(tmp_path: Path, new_postgres_database: Callable[..., str], model: SlowModel) -> Iterator[Pair]:
    made = Pair(tmp_path, new_postgres_database(), model)
    yield made
    for daemon in made.daemons:
        daemon.process.kill()
        daemon.process.wait()
    made.engine.dispose()


def test_two_daemons_share_four_series_and_each_day_of_each_is_measured_once(pair: Pair, model: SlowModel) -> None:
    first, second = pair.start("first"), pair.start("second")
    wait_for(lambda: len(first.holds()) + len(second.holds()) == len(NAMES), "a holder of each series")
    wait_for(lambda: "standby: held by process" in first.log() + second.log(), "a standby")
    pair.set_clock(f"{DAY_1}T03:10:00+00:00")
    every = [(name, arm) for name in sorted(NAMES) for arm in ("control", "tracked")]
    others = [run for run in every if run[0] != "one"]
    wait_for(lambda: pair.completed(DAY_1) == others and model.arrived == AT_ONCE + HELD, "a day with calls in flight")
    for name, arm in others:
        asked = f'canaryd_provider_requests_total{{arm="{arm}",series="{name}"}}'
        assert 0.0 in {first.metric(asked), second.metric(asked)}, "one of the two asked nothing"

    stopped, other = (first, second) if "one" in first.holds() else (second, first)
    wait_for(lambda: len(stopped.children()) == 1, "the child that waits for the model, alone")
    processes = [stopped.process.pid, *stopped.children()]
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    pair.cut_connections()
    pair.set_clock(f"{DAY_1}T03:15:00+00:00")
    wait_for(lambda: pair.completed(DAY_1) == every, "the rest of the day, by the other one")
    wait_for(lambda: other.holds() == set(NAMES), "what the stopped one held")
    stored = pair.rows("SELECT sample_id, run_id FROM sample ORDER BY sample_id")
    model.release.set()
    for pid in reversed(processes):
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: not stopped.holds() and not stopped.children(), "the stopped one has found out")
    assert "taken over from this process" in stopped.log()
    assert pair.rows("SELECT sample_id, run_id FROM sample ORDER BY sample_id") == stored, "it wrote nothing more"

    other.process.kill()
    other.process.wait()
    wait_for(lambda: stopped.holds() == set(NAMES), "the killed one's series")
    pair.set_clock(f"{DAY_2}T03:10:00+00:00")
    wait_for(lambda: pair.completed(DAY_2) == every, "the next day")
    of_an_item = (
        "SELECT COUNT(*) AS n FROM sample JOIN run_start USING (run_id) GROUP BY series, arm, slot_date, item_id"
    )
    counted = f"SELECT COUNT(*), MAX(n) FROM ({of_an_item}) AS items"
    assert pair.rows(counted) == [(2 * len(every) * ITEMS, 1)], "each item was answered once a day"
    assert pair.completed(DAY_1) == every
    in_vain = "SELECT series, arm, outcome FROM run_start JOIN run_end USING (run_id) WHERE outcome <> 'completed'"
    assert sorted(pair.rows(in_vain)) == [("one", "control", "abandoned"), ("one", "tracked", "abandoned")]
