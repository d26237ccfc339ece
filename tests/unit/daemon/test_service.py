"""The service around the desks: its health, its status line, its watchdog, and a store that goes away."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from canaryd.config import parse
from canaryd.daemon import service as module
from canaryd.daemon.desk import Loaded
from canaryd.daemon.notify import Notifier
from canaryd.daemon.service import Service, tick_s
from canaryd.daemon.worker import Order
from canaryd.errors import ConfigError
from canaryd.metrics.collector import ProcessMetrics
from canaryd.resources import resource
from canaryd.store.acknowledgements import Acknowledgement, add_acknowledgement
from canaryd.store.backup import back_up
from canaryd.store.engine import open_store
from canaryd.store.migrate import upgrade
from canaryd.store.write import register_series

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
BEFORE_DAY_1 = "2029-12-31T12:00:00+00:00"


class FakeWorker:
    """A child that has ended at once."""

    def __init__(self, order: Order) -> None:
        self.order, self.silent_s = order, 0.0

    def begin(self) -> None:
        """Take the order."""

    def ended(self) -> int:
        return 0


class Bench:
    """A service on a store of its own, with the registry that it exports and the socket that it notifies."""

    def __init__(self, folder: Path, manager: socket.socket) -> None:
        path = folder / "config.toml"
        path.write_text(CONFIG)
        (folder / "clock.txt").write_text(BEFORE_DAY_1)
        self.folder, self.path, self.manager = folder, path, manager
        self.registry = CollectorRegistry()
        self.metrics = ProcessMetrics(self.registry, settled=self.registry, arms=[("s", "old")])
        env = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "180000000"}
        loaded = Loaded(parse(CONFIG, path=path), CONFIG, "info")
        self.service = Service(loaded, metrics=self.metrics, notifier=Notifier(env, pid=1))

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def said(self) -> list[str]:
        messages = []
        self.manager.setblocking(False)
        try:
            while True:
                messages.append(self.manager.recv(4096).decode())
        except BlockingIOError:
            return messages


@pytest.fixture
def bench(tmp_path: Path, study: Any) -> Iterator[Bench]:
    upgrade(f"sqlite:///{tmp_path / 'canaryd.db'}")
    with open_store(f"sqlite:///{tmp_path / 'canaryd.db'}") as store:
        register_series(store, replace(study.plan(), registration=resource("prereg.example.toml").read_bytes()))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        yield Bench(tmp_path, manager)


def test_ready_is_only_what_has_a_snapshot_and_a_store(bench: Bench) -> None:
    service = bench.service
    assert service.why_unready() == "there is no snapshot of the store yet"
    assert service.snapshot is None
    service.open()
    assert service.why_unready() is None
    assert bench.value("canaryd_store_up") == 1
    service.tick()
    assert service.why_unhealthy() is None
    assert bench.value("canaryd_lease_held", series="s") == 1
    assert bench.said() == ["STATUS=idle, next run 2030-01-01 03:10Z", "WATCHDOG=1"]
    service.stop()
    assert bench.said()[0].startswith("STOPPING=1")


def test_a_store_that_is_moved_under_it_is_said_and_comes_back(bench: Bench) -> None:
    service = bench.service
    service.open()
    service.tick()
    database, aside = bench.folder / "canaryd.db", bench.folder / "aside.db"
    database.rename(aside)
    service.tick()
    assert bench.value("canaryd_store_up") == 0
    assert f"store {database} was moved or deleted while it was open" in str(service.why_unready())
    assert service.snapshot is not None
    blocked = service.snapshot.values["run_blocked"]
    assert blocked["s", "old", "store_unavailable"] == 1
    assert service.snapshot.values["alarm_state"]["s", "warming_up"] == 1, "what is known stays"
    aside.rename(database)
    service.tick()
    assert (bench.value("canaryd_store_up"), service.why_unready()) == (1, None)
    assert service.snapshot.values["run_blocked"]["s", "old", "store_unavailable"] == 0
    service.stop()


def test_another_file_in_its_place_is_never_touched(bench: Bench) -> None:
    service, database = bench.service, bench.folder / "canaryd.db"
    service.open()
    service.tick()
    copy = bench.folder / "copy.db"
    back_up(database, copy)
    copy.replace(database)
    before = database.read_bytes()
    for _ in range(3):
        service.tick()
        assert "was replaced by another file while it was open" in str(service.why_unready())
        assert bench.value("canaryd_store_up") == 0
    assert database.read_bytes() == before
    service.stop()


def test_a_disk_without_room_is_trouble_before_a_write_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    service = bench.service
    service.open()
    service.tick()
    monkeypatch.setattr(
        "canaryd.store.trouble.os.statvfs", lambda _: SimpleNamespace(f_flag=0, f_bavail=9, f_frsize=4096)
    )
    service.tick()
    full = str(service.why_unready())
    assert f"the disk is full at {bench.folder}; free space on it" in full
    assert bench.value("canaryd_store_up") == 0
    assert service.facts()["series"]["s"]["state"] == f"blocked: store_unavailable ({full})"
    assert bench.said()[-2:] == [f"STATUS=blocked: store_unavailable ({full})", "WATCHDOG=1"], (
        "what waits for a person is not stuck"
    )
    monkeypatch.undo()
    service.tick()
    assert (service.why_unready(), bench.value("canaryd_store_up")) == (None, 1)
    service.stop()


def test_a_failed_write_of_a_child_is_trouble_until_one_is_committed(bench: Bench) -> None:
    service = bench.service
    service.open()
    service.tick()
    with closing(sqlite3.connect(bench.folder / "canaryd.db", isolation_level=None)) as other:
        service._on_event("s", {"event": "write", "failed": "database or disk is full; free space"})
        assert service.why_unready() == "the store takes no writes: database or disk is full; free space"
        assert bench.value("canaryd_store_up") == 0
        assert service.snapshot is not None
        assert service.snapshot.values["run_blocked"]["s", "old", "store_unavailable"] == 1
        with service._store.write() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout=1")
        other.execute("BEGIN IMMEDIATE")
        service.tick()
        assert "database is locked" in str(service.why_unready())
        assert service.facts()["series"]["s"]["blocked"] == "store_unavailable"
    service.tick()
    assert (service.why_unready(), bench.value("canaryd_store_up")) == (None, 1)
    assert service.facts()["series"]["s"]["state"] == "idle, next run 2030-01-01 03:10Z"
    service.stop()


def test_the_watchdog_gets_no_sign_of_life_while_a_child_is_stuck(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = bench.service
    service.open()
    service.tick()
    assert "WATCHDOG=1" in bench.said()
    monkeypatch.setattr(module.Desk, "stuck", lambda *_: True)
    service.tick()
    assert "WATCHDOG=1" not in bench.said()
    service.stop()


def test_a_reload_is_announced_and_a_refused_one_is_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    service = bench.service
    service.open()
    bench.path.write_text(CONFIG.replace('model = "m-1"', 'model = "m-2"'))
    service.reload(reload_web=lambda: None)
    assert bench.value("canaryd_config_last_reload_successful") == 0
    assert bench.said() == ["RELOADING=1", "READY=1"]
    bench.path.write_text(CONFIG + 'concurrency = 2\n[daemon]\nlog_level = "warning"\n')

    def refuse() -> None:
        raise ConfigError("web.yml:2: is not YAML")

    service.reload(reload_web=refuse)
    assert bench.value("canaryd_config_last_reload_successful") == 0
    assert service._loaded.text == CONFIG, "all of it is in force, or nothing"
    levels: list[str] = []
    monkeypatch.setattr(module, "set_level", levels.append)
    service.reload(reload_web=lambda: None)
    assert levels == ["info"], "what the command line says stays in force"
    assert bench.value("canaryd_config_last_reload_successful") == 1
    infos = [sample for metric in bench.metrics.loaded_config.collect() for sample in metric.samples]
    assert len(infos) == 1, "the digest in force, and no other"
    service.stop()


def test_a_web_configuration_that_is_not_taken_over_is_seen_until_it_is(bench: Bench) -> None:
    service, shown = bench.service, "canaryd_config_last_reload_successful"
    service.open()
    service.show_web_config(False)
    assert bench.value(shown) == 0
    service.show_web_config(True)
    assert bench.value(shown) == 1
    bench.path.write_text("[")
    service.reload(reload_web=lambda: None)
    service.show_web_config(True)
    assert bench.value(shown) == 0, "the configuration is still not that of its file"
    service.stop()


def test_a_reload_warns_of_a_key_that_is_not_there(bench: Bench) -> None:
    bench.service.open()
    bench.path.write_text(f'{CONFIG}credential = "no_key"\n[webhook]\ncredential = "no_hook"\n')
    with capture_logs() as logged:
        bench.service.reload(reload_web=lambda: None)
    assert [line["event"] for line in logged] == ["configuration reloaded", "key not usable", "key not usable"]
    assert [line["log_level"] for line in logged[1:]] == ["warning", "warning"]
    assert ["no_key" in logged[1]["reason"], "no_hook" in logged[2]["reason"]] == [True, True]
    bench.service.stop()


def test_a_copy_that_failed_is_told_and_tried_at_once_after_a_reload(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[Order] = []
    monkeypatch.setattr(module, "Worker", lambda order, on_event: orders.append(order) or FakeWorker(order))
    service = bench.service
    service.open()
    bench.path.write_text(CONFIG + '[backup]\nfolder = "copies"\n')
    service.reload(reload_web=lambda: None)
    for _ in range(2):
        service.tick()
    assert len(orders) == 1
    service._on_event("", {"event": "copy", "table": "backup", "failed": "read-only"})
    service._on_event("s", {"event": "copy", "table": "export", "failed": "there is no [export] any more"})
    assert service.facts()["copies"] == {"backup": "read-only"}
    service.reload(reload_web=lambda: None)
    service.tick()
    assert len(orders) == 2
    service._on_event("", {"event": "copy", "table": "backup", "failed": None})
    service.tick()
    assert service.facts()["copies"] == {}
    service.stop()


def test_events_of_a_child_become_counters(bench: Bench) -> None:
    for event in (
        {"event": "started"},
        {"event": "call", "arm": "old", "retry": False, "failure": "timeout", "seconds": 3.0},
        {"event": "call", "arm": "old", "retry": True, "failure": None, "seconds": 0.7},
        {"event": "program", "failure": None, "seconds": 0.15},
        {"event": "program", "failure": "timeout", "seconds": 8.0},
        {"event": "message", "notice": "alarm/1", "failed": "status 503"},
        {"event": "message", "notice": "alarm/2", "failed": None},
        {"event": "write", "failed": None},
        {"event": "write", "failed": "disk I/O error"},
        {"event": "log", "level": "warning"},
    ):
        bench.service._on_event("s", event)
    labels = {"series": "s", "arm": "old"}
    assert bench.value("canaryd_provider_requests_total", **labels) == 2
    assert bench.value("canaryd_provider_retries_total", **labels) == 1
    assert bench.value("canaryd_provider_request_failures_total", **labels, reason="timeout") == 1
    assert bench.value("canaryd_provider_request_failures_total", **labels, reason="overloaded") == 0
    assert bench.value("canaryd_provider_request_duration_seconds_bucket", **labels, le="1.0") == 1
    assert bench.value("canaryd_sandbox_executions_total") == 2
    assert bench.value("canaryd_sandbox_failures_total", reason="timeout") == 1
    assert bench.value("canaryd_sandbox_failures_total", reason="sandbox_error") == 0
    assert bench.value("canaryd_sandbox_execution_duration_seconds_bucket", le="0.2") == 1
    assert bench.value("canaryd_webhook_deliveries_total") == 2
    assert bench.value("canaryd_webhook_failures_total") == 1
    assert bench.value("canaryd_store_writes_total") == bench.value("canaryd_store_write_failures_total") == 1
    assert bench.value("canaryd_log_messages_total", level="warning") == 1


def test_what_only_the_process_knows(bench: Bench) -> None:
    bench.service.open()
    bench.service.tick()
    facts = bench.service.facts()
    assert (facts["pid"], facts["store"]) == (os.getpid(), f"sqlite:///{bench.folder / 'canaryd.db'}")
    assert facts["series"] == {
        "s": {
            "state": "idle, next run 2030-01-01 03:10Z",
            "blocked": None,
            "stored": None,
            "planned": None,
            "next_run": "2030-01-01T03:10:00+00:00",
            "webhook": {"failed": {}, "next_attempt": None},
        }
    }
    bench.service.stop()


def test_an_acknowledgement_is_seen_at_the_next_tick(bench: Bench, study: Any) -> None:
    bench.service.open()
    bench.service.tick()
    metric = "alarm_acknowledged_until_timestamp_seconds"
    assert bench.service.snapshot is not None
    assert metric not in bench.service.snapshot.values
    until = study.now + timedelta(days=2)
    with open_store(f"sqlite:///{bench.folder / 'canaryd.db'}") as store:
        add_acknowledgement(store, Acknowledgement("s", "regression", study.now, until, "known"))
    bench.service.tick()
    assert bench.service.snapshot.values[metric] == {("s", "regression"): until.timestamp()}
    bench.service.stop()


def test_the_store_is_copied_once_a_day_where_the_configuration_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[Order] = []
    monkeypatch.setattr(module, "Worker", lambda order, on_event: orders.append(order) or FakeWorker(order))
    copied = "canaryd_store_backup_last_success_timestamp_seconds"
    bench.service.open()
    bench.service.tick()
    assert (orders, bench.value(copied)) == ([], None), "nothing copies it, so nothing is said"
    bench.path.write_text(CONFIG + '[backup]\nfolder = "copies"\n')
    bench.service.reload(reload_web=lambda: None)
    bench.service.tick()
    bench.service.tick()
    assert [(order.work, order.series) for order in orders] == [("copy", "")], "one at a time"
    assert bench.value(copied) == 0
    (bench.folder / "copies").mkdir()
    made = bench.folder / "copies" / "canaryd-2030-01-01T000000Z.sqlite"
    made.touch()
    bench.service.tick()
    assert bench.value(copied) == made.stat().st_mtime
    assert len(orders) == 1
    bench.service.stop()


def test_a_scheduler_that_stopped_ticking_is_unhealthy(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [module.time.monotonic()]
    monkeypatch.setattr(module.time, "monotonic", lambda: now_s[0])
    assert bench.service.why_unhealthy() is None, "it has only just started"
    now_s[0] += 200
    assert "has not ticked for 2" in str(bench.service.why_unhealthy()), "nor has it ever"
    bench.service.tick()
    assert bench.service.why_unhealthy() is None
    now_s[0] += 200
    assert bench.service.why_unhealthy() == "the scheduler has not ticked for 200 s"


def test_the_tick_is_twice_in_what_the_watchdog_allows() -> None:
    config = parse(CONFIG.replace('[demo]\nclock = "clock.txt"\n', ""), path=Path("/x/config.toml"))
    assert tick_s(config, None) == 30.0
    assert tick_s(config, 180.0) == 30.0
    assert tick_s(config, 20.0) == 10.0
