"""The whole chain on loopback: two daemons under a demo clock, a real Prometheus, a real Alertmanager, one receiver.

The shipped files are used with two documented changes: every `for` is shortened, waits and addresses are the test's.
What takes days (a stale series, a blind one) is proved by promtool's own tests of the rules.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from asking import board
from daemons import free_port, wait_for

from canaryd import graders
from canaryd.daily import measure_slot
from canaryd.demo.plan import QUICK, DemoPlan, models_of
from canaryd.demo.play import write_project
from canaryd.demo.server import ModelHost, ModelServer
from canaryd.panel import load

ROOT = Path(__file__).parents[2]
#: Three windows are enough: the second and the third are worse than the baseline.
PLAN = dataclasses.replace(QUICK, items=16, windows=3)


class Receiver:
    """A webhook receiver that keeps every alert of every notification."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.alerts += body["alerts"]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Stay quiet."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def received(self, name: str) -> list[tuple[str, str]]:
        """Return status and series of each alert of that name, as they came."""
        return [
            (alert["status"], alert["labels"].get("series", ""))
            for alert in self.alerts
            if alert["labels"]["alertname"] == name
        ]


class Play:
    """A project of the demo with its model server, measured up to a day in this process, then by a daemon."""

    def __init__(self, plan: DemoPlan, folder: Path) -> None:
        self.plan, self.folder, self.port = plan, folder, free_port()
        self.config = write_project(plan, folder)
        panel = load(str(self.config.series[0].panel), graders=graders)
        host = ModelHost.of(models_of(plan, panel), items=panel.items, today=self.today)
        self.server = ModelServer(host, port=plan.port)

    def today(self) -> date:
        return datetime.fromisoformat((self.folder / "demo-clock.txt").read_text().strip()).date()

    def set_clock(self, day: int, hour: int, minute: int) -> None:
        moment = datetime.combine(self.plan.date_of(day), time_of_day(hour, minute), UTC)
        fresh = self.folder / "fresh"
        fresh.write_text(moment.isoformat() + "\n")
        fresh.replace(self.folder / "demo-clock.txt")

    def measure_until(self, day: int) -> None:
        for each in range(1, day + 1):
            self.set_clock(each, 3, 10)
            measure_slot(self.config, self.config.series[0], slot_date=self.plan.date_of(each))

    @contextmanager
    def daemon(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "canaryd", "--config", str(self.config.path), "daemon"]
        with (
            (self.folder / "daemon.log").open("ab") as log,
            closing_process(
                [*command, "--web.listen-address", f"127.0.0.1:{self.port}"], cwd=self.folder, log=log
            ) as process,
        ):
            wait_for(lambda: self.exposes("canaryd_store_up 1.0"), "the daemon")
            yield process

    def exposes(self, line: str) -> bool:
        try:
            return line in httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=5).text.splitlines()
        except httpx.TransportError:
            return False


@contextmanager
def closing_process(command: list[str], *, cwd: Path, log: Any) -> Iterator[subprocess.Popen[bytes]]:
    # No folder to keep reports in: drawing them takes long, and nothing here looks at them.
    environment = os.environ | {"HOME": str(cwd), "CACHE_DIRECTORY": os.devnull}
    process = subprocess.Popen(command, cwd=cwd, stdout=log, stderr=log, env=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Chain:
    """Prometheus and Alertmanager with the shipped files, and the receiver behind them."""

    def __init__(self, folder: Path, targets: list[int]) -> None:
        self.folder, self.receiver = folder, Receiver()
        self.prometheus_port, self.alertmanager_port = free_port(), free_port()
        rules = (ROOT / "deploy/prometheus/canaryd.rules.yml").read_text()
        (folder / "canaryd.rules.yml").write_text(re.sub(r"for: \w+", "for: 0s", rules))
        config = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
        listed = ", ".join(f'"127.0.0.1:{port}"' for port in targets)
        config = config.replace('"127.0.0.1:10877"', listed).replace(": 30s", ": 1s")
        (folder / "prometheus.yml").write_text(config.replace(":9093", f":{self.alertmanager_port}"))
        routes = (ROOT / "deploy/alertmanager/alertmanager.yml").read_text()
        routes = re.sub(r"group_(wait|interval): \w+", r"group_\1: 1s", routes)
        (folder / "alertmanager.yml").write_text(routes.replace(":9099", f":{self.receiver.port}"))

    @contextmanager
    def running(self, installed: Callable[..., str]) -> Iterator[Chain]:
        alertmanager = [installed("prometheus-alertmanager", "alertmanager"), "--config.file=alertmanager.yml"]
        alertmanager += [f"--web.listen-address=127.0.0.1:{self.alertmanager_port}", "--cluster.listen-address="]
        alertmanager += [f"--storage.path={self.folder / 'am'}"]
        prometheus = [
            installed("prometheus"),
            "--config.file=prometheus.yml",
            f"--storage.tsdb.path={self.folder / 'tsdb'}",
        ]
        prometheus += [f"--web.listen-address=127.0.0.1:{self.prometheus_port}", "--rules.alert.resend-delay=1s"]
        with ExitStack() as stack:
            for name, command in (("am", alertmanager), ("prom", prometheus)):
                log = stack.enter_context((self.folder / f"{name}.log").open("ab"))
                stack.enter_context(closing_process(command, cwd=self.folder, log=log))
            wait_for(lambda: self.query("up") or None, "Prometheus")
            yield self

    def query(self, expression: str) -> list[dict[str, Any]]:
        try:
            answer = httpx.get(
                f"http://127.0.0.1:{self.prometheus_port}/api/v1/query", params={"query": expression}, timeout=5
            )
        except httpx.TransportError:
            return []
        found: list[dict[str, Any]] = (
            answer.json().get("data", {}).get("result", []) if answer.status_code == 200 else []
        )
        return found

    def silent_panels(self) -> set[str]:
        """Return the panels of the dashboards of which a query finds nothing of what was scraped."""
        return {
            panel["title"]
            for name in ("overview", "operation")
            for panel in board("prometheus", name)["panels"]
            for target in panel["targets"]
            if not self.query(
                re.sub(r"\$(job|instance|series)", ".+", target["expr"].replace("$__rate_interval", "30m"))
            )
        }

    def firing(self, name: str) -> int:
        return len(self.query(f'ALERTS{{alertname="{name}", alertstate="firing"}}'))


def test_the_planted_regression_pages_once_and_the_null_never(tmp_path: Path, installed: Callable[..., str]) -> None:
    drop = Play(dataclasses.replace(PLAN, port=free_port(), drop=0.45), tmp_path / "drop")
    null = Play(dataclasses.replace(PLAN, port=free_port(), drop=0.0, token_factor=1.0), tmp_path / "null")
    last = PLAN.days
    chain = Chain(tmp_path, [drop.port, null.port])
    receiver = chain.receiver
    with ExitStack() as stack:
        for play in (drop, null):
            stack.enter_context(play.server)
            play.measure_until(last - 1)
        stack.enter_context(chain.running(installed))
        stack.enter_context(null.daemon())
        with drop.daemon() as process:
            for play in (drop, null):
                play.set_clock(last, 3, 10)
            measured = f'canaryd_runs_total{{arm="tracked",series="demo"}} {last}.0'
            for play in (drop, null):
                wait_for(lambda play=play: play.exposes(measured), "the last day")
                play.set_clock(last + 1, 0, 5)
            wait_for(lambda: drop.exposes('canaryd_alarm_state{series="demo",state="regression"} 1.0'), "the state")
            wait_for(lambda: null.exposes('canaryd_alarm_state{series="demo",state="ok"} 1.0'), "the null's state")
            wait_for(lambda: receiver.received("CanarydRegressionDeclared"), "the page")
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        wait_for(lambda: ("firing", "") in receiver.received("CanarydDown"), "the daemon's death as a ticket")
        assert chain.firing("CanarydRegressionDeclared") == 1, "a dead daemon does not resolve the page"
        with drop.daemon():
            wait_for(lambda: ("resolved", "") in receiver.received("CanarydDown"), "its return")
            assert drop.exposes('canaryd_alarm_state{series="demo",state="regression"} 1.0')
            assert chain.firing("CanarydRegressionDeclared") == 1
        assert receiver.received("CanarydRegressionDeclared") == [("firing", "demo")], "paged once, never resolved"
        (paged,) = [one for one in receiver.alerts if one["labels"]["alertname"] == "CanarydRegressionDeclared"]
        assert paged["labels"]["instance"] == f"127.0.0.1:{drop.port}", "and never for the null"
        wait_for(lambda: receiver.received("CanarydWatchdog"), "the heartbeat of the chain")
        assert chain.silent_panels() == {"Blocked", "Budget"}, "nothing is blocked, and there is no budget"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
