"""Two simulated years of one resident process: outages, suspends, clock steps and bad days leave no slot unexplained.

The children are played by the test, so that what is measured is the resident process: its memory and its open files.
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

from canaryd.analysis import analyse
from canaryd.config import parse
from canaryd.daemon.desk import Desk, Loaded
from canaryd.daemon.worker import Order
from canaryd.metrics.snapshot import take_snapshot
from canaryd.records import RunEnd
from canaryd.resources import resource
from canaryd.schedule import policy_of
from canaryd.store import read
from canaryd.store.engine import Store, open_store
from canaryd.store.lease import LeasePolicy, acquire_lease
from canaryd.store.migrate import upgrade
from canaryd.store.process import is_alive, this_process
from canaryd.store.write import end_run, register_series
from canaryd.testing import FakeClock

pytestmark = pytest.mark.soak

CONFIG = """
[[series]]
name = "s"
panel = "p.jsonl"
[[series.arm]]
name = "old"
role = "tracked"
provider = "simulated"
model = "m-1"
"""
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


class TwoYears:
    """The calendar, the store and the chances of a soak."""

    def __init__(self, store: Store, study: Any, *, seed: int) -> None:
        self.store, self.study, self.chance = store, study, random.Random(seed)
        self.clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))

    def measure(self, slot_date: date) -> int:
        """Claim and end the runs of a slot as a child would; return its exit code."""
        outcome = self.chance.choices(["completed", "incomplete", "cut off", "crashed"], weights=[90, 4, 3, 3])[0]
        if outcome == "crashed":
            return 70
        lease = acquire_lease(self.store, "s", holder=this_process(), now=self.clock.now(), policy=POLICY)
        with self.store.read() as connection:
            before = read.runs(connection, "s", first=slot_date, last=slot_date)
        attempt = 1 + max((run.start.attempt for run in before), default=0)
        day = (slot_date - self.study.day_1).days + 1
        runs = self.study.claim(self.store, lease, *(self.study.start(day, arm=arm, attempt=attempt) for arm in ARMS))
        if outcome == "cut off":
            return 70
        for run in runs:
            end_run(self.store, RunEnd(self.clock.now(), outcome), run_id=run.run_id, lease=lease)  # type: ignore[arg-type]
        return 0

    def decide(self, day: date) -> None:
        """Decide the windows that have ended as a child would, on some days: it is no part of the resident process."""
        if day.day % 10:
            return
        lease = acquire_lease(self.store, "s", holder=this_process(), now=self.clock.now(), policy=POLICY)
        analyse(self.store, "s", lease=lease, now=self.clock.now())

    def pass_time(self) -> None:
        """Let time go by: mostly five hours to the next tick, sometimes a suspend, an outage or a clock set back."""
        what = self.chance.choices(["tick", "suspend", "outage", "step back"], weights=[920, 40, 15, 25])[0]
        hours = {
            "tick": 5.0,
            "suspend": self.chance.uniform(2, 30),
            "outage": self.chance.uniform(24, 24 * 9),
            "step back": -self.chance.uniform(0, 3),
        }[what]
        self.clock.moment = max(self.clock.moment + timedelta(hours=hours), datetime(2030, 1, 1, tzinfo=UTC))


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_two_years_leave_no_slot_unexplained_and_no_memory_behind(tmp_path: Path, study: Any) -> None:
    upgrade(f"sqlite:///{tmp_path / 'canaryd.db'}")
    loaded = Loaded(parse(CONFIG, path=tmp_path / "config.toml"), CONFIG, "info")
    taken = {}
    with open_store(f"sqlite:///{tmp_path / 'canaryd.db'}") as store:
        register_series(store, replace(study.plan(), registration=resource("prereg.example.toml").read_bytes()))
        years = TwoYears(store, study, seed=1)
        desk = Desk(loaded.config.series[0], lambda order: PlayedWorker(order, years))  # type: ignore[arg-type,return-value]
        while (elapsed := (years.clock.now().date() - study.day_1).days) < DAYS:
            desk.tick(store, loaded, clock=years.clock, why_untrusted=None)
            if desk.changed:
                take_snapshot(store, ["s"], policy=policy_of(loaded.config), now=years.clock.now())
                desk.changed = False
            month = elapsed // 30
            if month in {3, 23} and month not in taken:
                taken[month] = (resident_bytes(), open_files())
            years.pass_time()
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
            assert outcomes.count("incomplete") <= loaded.config.schedule.attempts
            assert "missed" not in outcomes or outcomes == ["missed"], f"{day} was measured and missed"
    (early_bytes, early_files), (late_bytes, late_files) = taken[3], taken[23]
    assert late_bytes <= 1.1 * early_bytes
    assert late_files == early_files
