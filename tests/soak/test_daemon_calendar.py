"""Two simulated years of one resident process: outages, suspends, clock steps and bad days leave no slot unexplained.

The children are played by the test, so that what is measured is the resident process as it is: the service around its
series, which takes a snapshot after each child and renders the page of its metrics after each tick.
"""

from __future__ import annotations

import gc
import os
import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from canaryd.analysis import analyse
from canaryd.config import parse
from canaryd.daemon import service as module
from canaryd.daemon.desk import Loaded
from canaryd.daemon.notify import Notifier
from canaryd.daemon.service import Service
from canaryd.daemon.worker import Order
from canaryd.metrics.collector import ProcessMetrics, SnapshotCollector
from canaryd.metrics.exposition import Exposition
from canaryd.records import RunEnd
from canaryd.resources import resource
from canaryd.store import read
from canaryd.store.engine import Store, open_store
from canaryd.store.lease import LeasePolicy, acquire_lease
from canaryd.store.migrate import upgrade
from canaryd.store.process import is_alive, this_process
from canaryd.store.write import end_run, register_series

pytestmark = pytest.mark.soak

CONFIG = """
[demo]
clock = "clock.txt"
[[series]]
name = "s"
panel = "p.jsonl"
[[series.arm]]
name = "old"
role = "tracked"
provider = "simulated"
model = "m-1"
"""
DAY_1 = datetime(2030, 1, 1, tzinfo=UTC)
DAYS = 730
POLICY = LeasePolicy(timedelta(seconds=90), is_alive)
ARMS = ("ctl", "old")


class PlayedWorker:
    """A child that does its work at once, in a way that chance picks, and is found ended at the next tick."""

    def __init__(self, order: Order, years: TwoYears) -> None:
        self.order, self.pid, self.silent_s, self._years, self._code = order, os.getpid(), 0.0, years, 0

    def begin(self) -> None:
        if self.order.work == "measure":
            self._code = self._years.measure(self.order.date)
        elif self.order.work == "decide":
            self._years.decide(self.order.date)

    def ended(self) -> int:
        return self._code

    def end(self, *, timeout_s: float) -> int:
        return self._code

    def drain(self) -> None:
        """Do nothing more."""


class TwoYears:
    """The calendar, the store and the chances of a soak."""

    def __init__(self, store: Store, study: Any, *, clock: Path, seed: int) -> None:
        self.store, self.study, self.chance, self._clock = store, study, random.Random(seed), clock
        self.now = DAY_1
        self._clock.write_text(self.now.isoformat())

    def measure(self, slot_date: date) -> int:
        """Claim and end the runs of a slot as a child would; return its exit code."""
        outcome = self.chance.choices(["completed", "incomplete", "cut off", "crashed"], weights=[90, 4, 3, 3])[0]
        if outcome == "crashed":
            return 70
        lease = acquire_lease(self.store, "s", holder=this_process(), now=self.now, policy=POLICY)
        with self.store.read() as connection:
            before = read.runs(connection, "s", first=slot_date, last=slot_date)
        attempt = 1 + max((run.start.attempt for run in before), default=0)
        day = (slot_date - self.study.day_1).days + 1
        runs = self.study.claim(self.store, lease, *(self.study.start(day, arm=arm, attempt=attempt) for arm in ARMS))
        if outcome == "cut off":
            return 70
        for run in runs:
            end_run(self.store, RunEnd(self.now, outcome), run_id=run.run_id, lease=lease)
        return 0

    def decide(self, day: date) -> None:
        """Decide the windows that have ended as a child would, on some days: it is no part of the resident process."""
        if day.day % 10:
            return
        lease = acquire_lease(self.store, "s", holder=this_process(), now=self.now, policy=POLICY)
        analyse(self.store, "s", lease=lease, now=self.now)

    def pass_time(self) -> None:
        """Let time go by: mostly five hours to the next tick, sometimes a suspend, an outage or a clock set back."""
        what = self.chance.choices(["tick", "suspend", "outage", "step back"], weights=[920, 40, 15, 25])[0]
        hours = {
            "tick": 5.0,
            "suspend": self.chance.uniform(2, 30),
            "outage": self.chance.uniform(24, 24 * 9),
            "step back": -self.chance.uniform(0, 3),
        }[what]
        self.now = max(self.now + timedelta(hours=hours), DAY_1)
        self._clock.write_text(self.now.isoformat())


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Resident:
    """The service with its metrics, as the daemon puts them together."""

    def __init__(self, config: Path) -> None:
        config.write_text(CONFIG)
        self.loaded = Loaded(parse(CONFIG, path=config), CONFIG, "info")
        live, settled = CollectorRegistry(), CollectorRegistry()
        metrics = ProcessMetrics(live, settled=settled, arms=[("s", arm) for arm in ARMS])
        self.service = Service(self.loaded, metrics=metrics, notifier=Notifier({}, pid=os.getpid()))
        settled.register(SnapshotCollector(lambda: self.service.snapshot))
        self._exposition = Exposition(live=live, settled=settled, state=lambda: self.service.snapshot)

    def tick(self) -> None:
        self.service.tick()
        assert self.service.why_unready() is None
        self._exposition.render("")


def test_two_years_leave_no_slot_unexplained_and_no_memory_behind(
    tmp_path: Path, study: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade(f"sqlite:///{tmp_path / 'canaryd.db'}")
    taken = {}
    with open_store(f"sqlite:///{tmp_path / 'canaryd.db'}") as store:
        register_series(store, replace(study.plan(), registration=resource("prereg.example.toml").read_bytes()))
        years = TwoYears(store, study, clock=tmp_path / "clock.txt", seed=1)
        monkeypatch.setattr(module, "Worker", lambda order, on_event: PlayedWorker(order, years))
        resident = Resident(tmp_path / "config.toml")
        resident.service.open()
        while (elapsed := (years.now - DAY_1).days) < DAYS:
            resident.tick()
            month = elapsed // 30
            if month in {3, 23} and month not in taken:
                taken[month] = (resident_bytes(), open_files())
            years.pass_time()
        resident.service.stop()
        with store.read() as connection:
            runs = read.runs(connection, "s")
    last = max(run.start.slot_date for run in runs)
    for n in range((last - study.day_1).days):
        day = study.day_1 + timedelta(days=n)
        here = [run for run in runs if run.start.slot_date == day]
        assert {run.start.arm for run in here} == set(ARMS), f"{day} is not accounted for"
        assert all(run.end is not None for run in here), f"{day} has a run that nobody closed"
        for arm in ARMS:
            outcomes = [run.end.outcome for run in here if run.start.arm == arm and run.end]
            assert outcomes.count("completed") <= 1, f"{day} was measured twice"
            assert outcomes.count("incomplete") <= resident.loaded.config.schedule.attempts
            assert "missed" not in outcomes or outcomes == ["missed"], f"{day} was measured and missed"
    (early_bytes, early_files), (late_bytes, late_files) = taken[3], taken[23]
    assert late_bytes <= 1.1 * early_bytes
    assert late_files == early_files
