"""The webhook from the daemon to a receiver: each transition is accepted once, whatever fails or dies in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from click.testing import CliRunner
from daemons import PATIENCE_S, wait_for

from canaryd.cli import cli
from canaryd.config import Config, parse
from canaryd.demo.plan import QUICK
from canaryd.demo.play import write_project
from canaryd.errors import UsageError
from canaryd.records import Alarm, AlarmState
from canaryd.runner.clock import clock_of
from canaryd.runner.project import held
from canaryd.store.engine import open_store
from canaryd.store.write import append_alarm


class Receiver:
    """A webhook that refuses its first requests, and keeps what it refused and what it took."""

    def __init__(self, refusals: int) -> None:
        self.refused: list[dict[str, Any]] = []
        self.accepted: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.keys.append(self.headers["Idempotency-Key"])
                is_refused = len(receiver.refused) < refusals
                (receiver.refused if is_refused else receiver.accepted).append(body)
                self.send_response(503 if is_refused else 200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Stay quiet."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/services/T0/B0/hush-hush"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Project:
    """A project of the demo before its first day, with a webhook."""

    def __init__(self, folder: Path, receiver: Receiver, port: int, *, form: str = "generic") -> None:
        self.folder, self.port, self.path = folder, port, folder / "config.toml"
        write_project(QUICK, folder)
        (folder / "webhook-url.txt").write_text(receiver.url + "\n")
        text = self.path.read_text().replace(
            "[credentials]\n", '[credentials]\nwebhook_url_file = "webhook-url.txt"\n', 1
        )
        self.path.write_text(
            f'{text}\n[daemon]\nlisten = "127.0.0.1:{port}"\n'
            f'[webhook]\ncredential = "webhook_url"\nformat = "{form}"\nrunbooks = "https://wiki.test/runbooks/"\n'
        )

    @property
    def config(self) -> Config:
        return parse(self.path.read_text(), path=self.path)

    def enter(self, *states: AlarmState, ago: timedelta = timedelta(0)) -> None:
        clock = clock_of(self.config)
        with open_store(self.config.store_url) as store, held(store, "demo", clock=clock) as lease:
            for state in states:
                append_alarm(store, Alarm("demo", state, clock.now() - ago, None), lease=lease)

    @contextmanager
    def daemon(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "canaryd", "--config", str(self.path), "daemon"]
        with (self.folder / "daemon.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, env=os.environ | {"HOME": str(self.folder)}
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE_S) == 0, self.log()

    def metric(self, name: str) -> float | None:
        try:
            page = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=5).text
        except httpx.TransportError:
            return None
        found = [line for line in page.splitlines() if line.startswith(name + " ")]
        return float(found[0].rpartition(" ")[2]) if found else None

    def log(self) -> str:
        return (self.folder / "daemon.log").read_text()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def receiving() -> Iterator[Callable[[int], Receiver]]:
    made: list[Receiver] = []

    def start(refusals: int) -> Receiver:
        made.append(Receiver(refusals))
        return made[-1]

    yield start
    for each in made:
        each.server.shutdown()
        each.server.server_close()


def told(canaryd: Any, project: Project) -> list[str | None]:
    listed = canaryd("--config", project.path, "alarms", "--json").json["alarms"]
    return [alarm["webhook"] for alarm in listed]


def test_each_transition_is_accepted_once_through_failures_and_a_kill(
    canaryd: Any, receiving: Callable[[int], Receiver], tmp_path: Path, port: int
) -> None:
    receiver = receiving(2)
    project = Project(tmp_path / "demo", receiver, port)
    project.enter("ok", ago=timedelta(days=9))
    project.enter("regression")
    with project.daemon() as process:
        wait_for(lambda: len(receiver.refused) == 2, "two refusals")
        assert project.metric("canaryd_webhook_failures_total") in {1, 2}, "the second may not be counted yet"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert told(canaryd, project) == [None, None]
    with project.daemon():
        wait_for(lambda: project.metric("canaryd_webhook_deliveries_total") == 1.0, "the message")
        assert told(canaryd, project) == [None, "accepted"], (
            "what another state followed nine days ago would only confuse"
        )
        assert len(receiver.accepted) == 1
    project.enter("not_evaluable")
    acked = canaryd("--config", project.path, "ack", "--until", "7d", "--reason", "known: the panel is down")
    assert (acked.code, acked.out.split(" until")[0]) == (0, "demo: not_evaluable is acknowledged")
    project.enter("ok")
    with project.daemon():
        wait_for(lambda: len(receiver.accepted) == 2, "the end of it")
        wait_for(lambda: project.metric("canaryd_webhook_deliveries_total") == 1.0, "its count")
    assert told(canaryd, project) == [None, "accepted", "silenced", "accepted"]
    first, last = receiver.accepted
    assert first == receiver.refused[0] == receiver.refused[1]
    assert len(set(receiver.keys[:3])) == 1, "a repetition is told by its key"
    assert (first["state"], first["before"], first["synthetic"]) == ("regression", "ok", False)
    assert first["runbook_url"] == "https://wiki.test/runbooks/CanarydRegressionDeclared"
    assert (last["state"], last["before"]) == ("ok", "not_evaluable")
    assert "hush-hush" not in project.log()


def test_a_test_message_is_marked_and_stores_nothing(
    canaryd: Any, receiving: Callable[[int], Receiver], tmp_path: Path, port: int
) -> None:
    receiver = receiving(1)
    project = Project(tmp_path / "demo", receiver, port, form="slack")
    refused = canaryd("--config", project.path, "alert", "test", "--webhook")
    assert refused.code == 69
    assert "status 503" in refused.err
    sent = canaryd("--config", project.path, "alert", "test", "--webhook")
    assert sent.code == 0, sent.err
    (body,) = receiver.accepted
    assert list(body) == ["text"]
    test = sent.out.split()[-1]
    marked = f"[test/{test}: a TEST, nothing is stored and no state changed] canaryd synthetic: regression since"
    assert body["text"].startswith(marked)
    assert receiver.keys[1] == f"synthetic/test/{test}"
    assert receiver.keys[0] != receiver.keys[1], "a test is no repetition of the one before"
    assert "https://wiki.test/runbooks/CanarydRegressionDeclared" in body["text"]
    assert canaryd("--config", project.path, "alarms", "--json").json["alarms"] == []
    assert "hush-hush" not in refused.err + sent.out + sent.err
    (project.folder / "webhook-url.txt").write_text("not-a-url\n")
    assert canaryd("--config", project.path, "alert", "test", "--webhook").code == 78
    bare = project.path.read_text().partition("[daemon]")[0]
    project.path.write_text(bare)
    without = canaryd("--config", project.path, "alert", "test", "--webhook")
    assert (without.code, "there is no [webhook]" in without.err) == (78, True)


def test_a_webhook_that_cannot_be_told_is_said_before_it_is_needed(
    receiving: Callable[[int], Receiver], tmp_path: Path, port: int
) -> None:
    project = Project(tmp_path / "demo", receiving(0), port)
    fine = CliRunner().invoke(cli, ["--config", str(project.path), "config", "check"])
    assert fine.exit_code == 0, fine.output
    (project.folder / "webhook-url.txt").write_text("hush-hush\n")
    for command in (["config", "check"], ["doctor"]):
        found = CliRunner().invoke(cli, ["--config", str(project.path), *command])
        assert "webhook-url.txt: what stands there is no http(s) URL" in f"{found.exception} {found.output}", command
        assert found.exit_code != 0


def test_an_acknowledgement_silences_a_state_and_clears_nothing(
    receiving: Callable[[int], Receiver], tmp_path: Path, port: int
) -> None:
    project = Project(tmp_path / "demo", receiving(0), port)

    def here(*arguments: str) -> Any:
        """Run a command in this process, which is the faster for so many."""
        return CliRunner().invoke(cli, ["--config", str(project.path), *arguments])

    quiet = here("ack", "--until", "7d", "--reason", "nothing yet")
    assert isinstance(quiet.exception, UsageError)
    assert "which alarms nobody" in str(quiet.exception)
    project.enter("regression")
    for until in ("91d", "2027-13-01", "2027-04-01T12:00", "soon", "0m"):
        refused = here("ack", "--until", until, "--reason", "x")
        assert isinstance(refused.exception, UsageError)
        assert str(refused.exception).startswith("--until is"), until
    uncarried = here("ack", "--reason", "x").exception
    assert "begins on" in str(uncarried), "what is carried is of a series that has begun"
    assert here("ack", "--until", "2d", "--reason", "known").exit_code == 0
    alarms = json.loads(here("alarms", "--json").output)
    assert [each["state"] for each in alarms["alarms"]] == ["regression"]
    assert [(each["state"], each["reason"]) for each in alarms["acknowledgements"]] == [("regression", "known")]
    text = here("metrics").output
    assert 'canaryd_alarm_state{series="demo",state="regression"} 1.0' in text
    assert 'canaryd_alarm_acknowledged_until_timestamp_seconds{series="demo",state="regression"}' in text
    shown = here("status").output
    assert "REGRESSION" in shown
    assert "acknowledged until" in shown
    (series,) = json.loads(here("status", "--json").output)["series"]
    assert (series["state"], series["acknowledged"]["reason"]) == ("regression", "known")
    checked = json.loads(here("check", "--json").output)
    assert checked["sentence"].endswith(": known"), "the report begins with that sentence"
