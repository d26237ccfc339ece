"""One series in the daemon, tick by tick, with a child that a test ends as it likes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from canaryd.config import Retry, parse
from canaryd.daemon.desk import Desk, Loaded, longest_silence_s
from canaryd.daemon.worker import Order
from canaryd.records import Alarm, Arm, RunEnd
from canaryd.resources import resource
from canaryd.store import read
from canaryd.store.engine import Store, open_store
from canaryd.store.harness import keep_duration
from canaryd.store.lease import LeasePolicy, acquire_lease, current_lease, hand_over, release_lease
from canaryd.store.process import Holder, is_alive, this_process
from canaryd.store.regrades import Regrade, append_regrade
from canaryd.store.write import append_alarm, end_run, register_series
from canaryd.testing import FakeClock

CONFIG = """
[[series]]
name = "s"
panel = "p.jsonl"
[[series.arm]]
name = "old"
role = "tracked"
provider = "simulated"
model = "m-1"
timeout_s = 60
"""
POLICY = LeasePolicy(timedelta(seconds=90), is_alive)


class FakeWorker:
    """A child with the id of a process that lives, so that the lease which it is given is held by someone alive."""

    def __init__(self, order: Order, pid: int) -> None:
        self.order, self.pid, self.code, self.silent_s, self.begun = order, pid, None, 0.0, False

    def begin(self) -> None:
        self.begun = True

    def ended(self) -> int | None:
        return self.code

    def end(self, timeout_s: float) -> int:
        self.code = -9
        return -9


class Room:
    """A desk with its store, clock and the children it started."""

    def __init__(self, store: Store, study: Any, path: Path) -> None:
        self.store, self.study = store, study
        self.clock = FakeClock(datetime(2030, 1, 1, 1, tzinfo=UTC))
        self.loaded = Loaded(parse(CONFIG, path=path / "config.toml"), CONFIG, "info")
        self.workers: list[Any] = []
        self.child_pid = os.getpid()
        self.desk = Desk(self.loaded.config.series[0], self.start)

    def start(self, order: Order) -> Any:
        self.workers.append(FakeWorker(order, self.child_pid))
        return self.workers[-1]

    def tick(self, moment: datetime | None = None, why_untrusted: str | None = None) -> str:
        self.clock.moment = moment or self.clock.moment
        self.desk.tick(self.store, self.loaded, clock=self.clock, why_untrusted=why_untrusted)
        return self.desk.state

    def orders(self) -> list[tuple[str, str]]:
        return [(worker.order.work, worker.order.slot_date) for worker in self.workers]

    def outcomes(self) -> list[tuple[str, str, str]]:
        with self.store.read() as connection:
            runs = read.runs(connection, "s")
        return [(str(run.start.slot_date), run.start.arm, run.end.outcome if run.end else "open") for run in runs]

    def holder_pid(self) -> int:
        with self.store.read() as connection:
            lease = current_lease(connection, "s")
        assert lease is not None
        return lease.holder.pid if self.clock.now() < lease.expires_at else 0

    def measure(self, outcome: str, *, reason: str = "", arm: str | None = None, seconds: float = 600.0) -> None:
        """Do what a child would: claim the slot of today for both arms, and end it."""
        lease = acquire_lease(self.store, "s", holder=this_process(), now=self.clock.now(), policy=POLICY)
        day = (self.clock.now().date() - self.study.day_1).days + 1
        with self.store.read() as connection:
            attempt = 1 + len(read.runs(connection, "s", first=self.clock.now().date())) // 2
        starts = [self.study.start(day, arm=each, attempt=attempt) for each in ("old", "ctl")]
        for run in self.study.claim(self.store, lease, *starts):
            keep_duration(self.store, seconds, run_id=run.run_id, lease=lease)
            came_to = (outcome, reason) if arm in (None, run.start.arm) else ("completed", "")
            end_run(self.store, RunEnd(self.clock.now(), *came_to), run_id=run.run_id, lease=lease)


@pytest.fixture
def room(migrated: Path, study: Any, tmp_path: Path) -> Iterator[Room]:
    with open_store(f"sqlite:///{migrated}") as store:
        register_series(store, replace(study.plan(), registration=resource("prereg.example.toml").read_bytes()))
        yield Room(store, study, tmp_path)


@pytest.fixture
def migrated(tmp_path: Path) -> Path:
    from canaryd.store.migrate import upgrade

    upgrade(f"sqlite:///{tmp_path / 'canaryd.db'}")
    return tmp_path / "canaryd.db"


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2030, 1, day, hour, minute, tzinfo=UTC)


def test_a_day_from_waiting_over_measuring_to_waiting(room: Room) -> None:
    room.tick(at(1, 1))
    assert room.orders() == [("decide", "2030-01-01")], "what became due while nobody ran is decided at once"
    room.workers[0].code = 0
    assert room.tick() == "idle, next run 2030-01-01 03:10Z"
    room.tick(at(1, 3, 10))
    assert room.orders()[1:] == [("measure", "2030-01-01")]
    assert room.workers[1].begun
    assert room.desk.is_holder
    assert room.desk.state == "starting"
    assert room.tick(at(1, 3, 11)) == "starting", "no arm has passed its checks"
    room.measure("completed")
    room.workers[1].code = 0
    assert room.tick(at(1, 3, 20)) == "idle, next run 2030-01-02 03:10Z"
    assert len(room.workers) == 2
    assert room.desk.changed


def test_an_incomplete_slot_is_tried_again_after_a_while(room: Room) -> None:
    room.tick(at(1, 3, 10))
    room.clock.moment = at(1, 3, 20)
    room.measure("incomplete")
    room.workers[0].code = 0
    assert room.tick(at(1, 3, 20)) == "idle, next run 2030-01-01 03:35Z"
    assert len(room.workers) == 1
    room.tick(at(1, 3, 35))
    assert room.orders() == [("measure", "2030-01-01")] * 2


def test_a_refused_slot_says_what_blocks_it_and_when_it_is_tried_again(room: Room) -> None:
    room.tick(at(1, 3, 10))
    room.measure("refused", reason="panel_mismatch: the panel is not the one in its lock")
    room.workers[0].code = 0
    assert room.tick(at(1, 3, 11)) == "blocked: panel_mismatch (ctl, old), next try 03:25Z"
    assert (room.desk.facts()["blocked"], room.desk.blocked) == ("panel_mismatch", None)
    room.tick(at(1, 3, 25))
    assert (room.desk.state, room.desk.facts()["blocked"]) == ("starting", None)
    room.measure("refused", reason="budget: calls_per_day is 5", arm="ctl")
    room.workers[1].code = 0
    assert room.tick(at(1, 3, 26)) == "blocked: budget (ctl), next try 03:40Z", "the other arm is complete"
    assert room.tick(at(1, 15, 10)).startswith("blocked: budget (ctl), slot 2030-01-01 is not measured: it could be")
    room.tick(at(2, 0, 1))
    room.workers[2].code = 0
    assert room.tick(at(2, 0, 2)) == "idle, next run 2030-01-02 03:10Z"
    assert room.desk.facts()["blocked"] is None


def test_a_slot_that_would_not_end_in_time_is_not_started(room: Room) -> None:
    """It may be caught up until 15:10, and took two hours the day before."""
    room.tick(at(1, 3, 10))
    room.measure("completed", seconds=7200.0)
    room.workers[0].code = 0
    room.tick(at(1, 5, 10))
    room.tick(at(2, 13, 10))
    assert room.orders()[1:] == [("decide", "2030-01-02")]
    room.workers[1].code = 0
    assert room.tick().startswith("slot 2030-01-02 is not measured: it could be started until 13:10 UTC")


def test_a_child_that_failed_without_a_row_is_not_started_at_once_again(room: Room) -> None:
    room.tick(at(1, 3, 10))
    room.workers[0].code = 70
    assert room.tick(at(1, 3, 11)) == "idle, next run 2030-01-01 03:26Z"
    room.tick(at(1, 3, 26))
    assert len(room.workers) == 2


def idle_on(room: Room, day: int) -> None:
    """Play a day in which everything is measured, up to the first tick with nothing left to do."""
    room.tick(at(day, 3, 10))
    room.clock.moment = at(day, 3, 20)
    room.measure("completed")
    room.workers[-1].code = 0
    room.tick(at(day, 3, 21))


def test_once_a_week_the_stored_replies_are_graded_again_beside_the_runs(room: Room) -> None:
    idle_on(room, 7)
    assert room.orders() == [("measure", "2030-01-07")], "the series is not a week old"
    idle_on(room, 8)
    assert room.orders()[-1] == ("regrade", "2030-01-08")
    pass_1 = room.workers[-1]
    assert pass_1.begun
    assert room.holder_pid() == os.getpid(), "it needs no lease"
    room.tick(at(9, 3, 10))
    assert room.orders()[-1] == ("measure", "2030-01-09"), "nothing waits for it"
    append_regrade(room.store, Regrade("s", at(9, 3), None, (), 0, 0, 0, ()))
    pass_1.code = 0
    room.desk.changed = False
    room.tick(at(9, 4, 1))
    assert room.desk.changed, "what it found is to be shown"
    room.measure("completed")
    room.workers[-1].code = 0
    for day in range(10, 16):
        idle_on(room, day)
    assert "regrade" not in [work for work, _ in room.orders()[3:]]
    idle_on(room, 16)
    assert room.orders()[-1] == ("regrade", "2030-01-16")


def test_no_regrading_begins_while_a_slot_is_to_be_tried_again(room: Room) -> None:
    room.tick(at(8, 3, 10))
    room.clock.moment = at(8, 3, 20)
    room.measure("incomplete")
    room.workers[0].code = 0
    room.tick(at(8, 3, 20))
    assert room.orders() == [("measure", "2030-01-08")]


def test_a_regrading_that_fails_is_tried_again_the_next_day_and_one_that_hangs_is_killed(room: Room) -> None:
    idle_on(room, 8)
    failed = room.workers[-1]
    failed.code = 69
    room.tick(at(8, 4))
    assert room.orders()[-1] == ("regrade", "2030-01-08")
    assert room.workers[-1] is failed
    idle_on(room, 9)
    hanging = room.workers[-1]
    assert hanging.order.work == "regrade"
    hanging.silent_s = 7 * 3600.0
    room.tick(at(9, 11))
    assert hanging.code == -9
    idle_on(room, 10)
    room.desk.give_up(room.store, now=room.clock.now())
    assert room.workers[-1].code == -9


def test_lost_days_are_closed_before_today_is_measured(room: Room) -> None:
    room.tick(at(4, 3, 10))
    assert room.orders() == [("measure", "2030-01-04")]
    missed = [(f"2030-01-0{day}", arm, "missed") for day in (1, 2, 3) for arm in ("ctl", "old")]
    assert room.outcomes() == missed


def test_a_run_that_a_dead_process_left_open_is_closed_and_goes_on(room: Room, study: Any) -> None:
    room.clock.moment = at(1, 3, 10)
    lease = acquire_lease(room.store, "s", holder=this_process(), now=at(1, 3), policy=POLICY)
    study.claim(room.store, lease, study.start(1))
    room.tick(at(1, 3, 12))
    assert room.outcomes() == [("2030-01-01", "old", "abandoned")]
    assert room.orders() == [("measure", "2030-01-01")]


def test_while_another_process_holds_the_series_nothing_is_started(room: Room, study: Any) -> None:
    acquire_lease(room.store, "s", holder=study.holder(7), now=at(1, 3, 9), policy=POLICY)
    said = room.tick(at(1, 3, 10))
    assert said == "standby: held by process 7 on here"
    assert (room.workers, room.desk.blocked, room.desk.is_holder) == ([], "not_holder", False)
    room.tick(at(1, 3, 11))
    assert room.orders() == [("measure", "2030-01-01")], "it is taken over once its lease has lapsed"
    assert room.desk.blocked is None


def test_a_standby_is_logged_once_per_holder(room: Room, study: Any) -> None:
    with capture_logs() as logged:
        for minute in range(3):
            lease = acquire_lease(room.store, "s", holder=study.holder(7), now=at(1, 3, minute), policy=POLICY)
            room.tick(at(1, 3, minute))
        release_lease(room.store, lease, now=at(1, 3, 3))
        acquire_lease(room.store, "s", holder=study.holder(8), now=at(1, 3, 3), policy=POLICY)
        room.tick(at(1, 3, 3))
    assert [line["state"] for line in logged] == [f"standby: held by process {pid} on here" for pid in (7, 8)]


def test_a_clock_that_is_not_believed_starts_nothing(room: Room) -> None:
    assert room.tick(at(1, 3, 10), why_untrusted="it says 1970") == "blocked: clock_untrusted (it says 1970)"
    assert (room.workers, room.desk.blocked) == ([], "clock_untrusted")


def test_a_series_that_is_not_registered_says_so(room: Room) -> None:
    stranger = Desk(replace(room.loaded.config.series[0], name="stranger"), room.start)
    stranger.tick(room.store, room.loaded, clock=room.clock, why_untrusted=None)
    assert stranger.state == "not registered; run `canaryd register`"


def test_a_child_that_is_silent_for_longer_than_any_call_is_stuck(room: Room) -> None:
    assert not room.desk.stuck()
    room.tick(at(1, 3, 10))
    room.workers[0].silent_s = 479.0
    assert not room.desk.stuck()
    room.workers[0].silent_s = 481.0
    assert room.desk.stuck()


def test_a_pace_that_the_configuration_allows_is_no_silence(room: Room) -> None:
    slow = CONFIG + "requests_per_minute = 0.1\n"
    room.loaded = Loaded(parse(slow, path=room.loaded.config.path), slow, "info")
    room.tick(at(1, 3, 10))
    room.workers[0].silent_s = 600.0 + 60.0
    room.loaded = Loaded(parse(CONFIG, path=room.loaded.config.path), CONFIG, "info")
    room.tick(at(1, 3, 21))
    assert not room.desk.stuck(), "the child keeps to what it began with"


def test_silence_is_bounded_by_the_slowest_arm_the_longest_call_and_every_wait() -> None:
    arm = Arm("a", "tracked", "openai", "m", timeout_s=600)
    slow = replace(arm, timeout_s=5, requests_per_minute=2)
    assert longest_silence_s([arm, slow], Retry(total_wait_s=300)) == 300 + 30 + 600 + 120
    assert longest_silence_s([arm], Retry(total_wait_s=0)) == 600 + 120


def test_a_daemon_that_ends_gives_the_series_back(room: Room) -> None:
    room.tick(at(1, 1))
    room.workers[0].code = 0
    room.tick()
    assert room.holder_pid() == os.getpid()
    room.desk.give_up(room.store, now=room.clock.now())
    assert room.holder_pid() == 0


def test_a_daemon_that_ends_with_its_child_gives_back_what_the_child_had(room: Room, study: Any) -> None:
    room.tick(at(1, 3, 10))
    assert room.holder_pid() == os.getpid()
    room.desk.give_up(room.store, now=room.clock.now())
    assert room.holder_pid() == os.getpid(), "a child that lives may still write"
    room.workers[0].code = 0
    room.desk.give_up(room.store, now=room.clock.now())
    assert room.holder_pid() == 0


def test_a_child_may_give_the_series_back_to_a_parent_that_it_does_not_see_in_procfs(room: Room) -> None:
    room.tick(at(1, 3, 10))
    lease = acquire_lease(room.store, "s", holder=this_process(), now=at(1, 3, 10), policy=POLICY)
    unseen = replace(this_process(), process_start=0)
    hand_over(room.store, lease, to=unseen, now=at(1, 3, 10), policy=POLICY)
    room.workers[0].code = 70
    assert room.tick(at(1, 3, 11)).startswith("idle")


def test_what_a_killed_child_could_not_give_back_is_given_back_for_it(room: Room) -> None:
    room.child_pid = 1
    room.tick(at(1, 3, 10))
    assert room.holder_pid() == 1
    room.workers[0].code = -9
    room.desk.give_up(room.store, now=room.clock.now())
    assert room.holder_pid() == 0


def test_a_daemon_that_ends_leaves_the_lease_of_another_alone(room: Room, study: Any) -> None:
    room.tick(at(1, 3, 10))
    other = study.holder(7)
    acquire_lease(room.store, "s", holder=other, now=at(1, 3, 12), policy=POLICY)
    room.workers[0].code = -9
    room.desk.give_up(room.store, now=at(1, 3, 12))
    assert room.holder_pid() == 7


def test_the_holder_tells_the_webhook_also_while_it_measures_and_a_standby_does_not(room: Room) -> None:
    hooked = CONFIG + '[webhook]\ncredential = "hook"\n'
    room.loaded = Loaded(parse(hooked, path=room.loaded.config.path), hooked, "info")
    lease = acquire_lease(room.store, "s", holder=Holder("elsewhere", "m", 1, 1), now=at(1, 1), policy=POLICY)
    append_alarm(room.store, Alarm("s", "regression", at(1, 1), None), lease=lease)
    assert room.tick(at(1, 1)).startswith("standby")
    assert room.orders() == [], "whoever holds the series tells"
    release_lease(room.store, lease, now=at(1, 1))
    room.tick(at(1, 1))
    room.tick(at(1, 1))
    assert room.orders() == [("decide", "2030-01-01"), ("tell", "2030-01-01")]
    room.tick(at(1, 1))
    assert len(room.workers) == 2, "one child at a time, and the run is not waited for"
    room.workers[1].code = 0
    room.tick(at(1, 1), why_untrusted="the clock was set back")
    assert len(room.workers) == 2, "a clock that is not believed makes nothing owed"
    room.workers[1].code = None
    room.desk.give_up(room.store, now=at(1, 1))
    assert room.workers[1].code == -9
