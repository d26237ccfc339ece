"""`canaryd alarms` and `canaryd alert test` as their user runs them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from canaryd.config import parse
from canaryd.demo.plan import QUICK
from canaryd.demo.play import write_project
from canaryd.records import Alarm
from canaryd.runner.clock import clock_of
from canaryd.runner.project import held
from canaryd.store.engine import open_store
from canaryd.store.write import append_alarm


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_project(QUICK, tmp_path / "demo")
    return tmp_path / "demo"


def test_transitions_are_listed_as_text_and_as_json(canaryd: Any, folder: Path) -> None:
    config_file = folder / "config.toml"
    none = canaryd("--config", config_file, "alarms")
    assert (none.code, none.out) == (0, "no state has changed since the series were registered\n")
    config = parse(config_file.read_text(), path=config_file)
    clock = clock_of(config)
    with open_store(config.store_url) as store, held(store, "demo", clock=clock) as lease:
        for state in ("ok", "regression"):
            append_alarm(store, Alarm("demo", state, clock.now(), None), lease=lease)
    listed = canaryd("--config", config_file, "alarms").out.splitlines()
    assert [line.split()[-2:] for line in listed] == [["demo", "ok"], ["demo", "regression"]]
    document = canaryd("--config", config_file, "alarms", "--json", "--series", "demo").json
    assert document["schema_version"] == 1
    assert [alarm["state"] for alarm in document["alarms"]] == ["ok", "regression"]
    assert canaryd("--config", config_file, "alarms", "--series", "nosuch").code == 64


class Alertmanager:
    """What answers in place of an Alertmanager, and keeps what it got."""

    def __init__(self, status: int) -> None:
        self.got: list[tuple[str, Any]] = []
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                manager.got.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Stay quiet."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(params=[200, 400])
def alertmanager(request: pytest.FixtureRequest) -> Iterator[tuple[int, Alertmanager]]:
    manager = Alertmanager(request.param)
    yield request.param, manager
    manager.server.shutdown()
    manager.server.server_close()


def test_a_test_page_is_marked_as_one(canaryd: Any, alertmanager: tuple[int, Alertmanager]) -> None:
    status, manager = alertmanager
    sent = canaryd("alert", "test", "--alertmanager", manager.url + "/", "--severity", "warning")
    assert sent.code == (0 if status == 200 else 69), sent.err
    ((path, (alert,)),) = manager.got
    assert path == "/api/v2/alerts"
    test = alert["labels"].pop("test")
    assert f"(test {test})" in alert["annotations"]["description"]
    assert status != 200 or f"(warning, test {test})" in sent.out
    assert alert["labels"] == {
        "alertname": "CanarydTest",
        "severity": "warning",
        "job": "canaryd",
        "synthetic": "true",
    }
    assert alert["endsAt"] > alert["startsAt"]


def test_an_alertmanager_that_is_not_there_is_a_sentence(canaryd: Any, port: int) -> None:
    refused = canaryd("alert", "test", "--alertmanager", f"http://127.0.0.1:{port}")
    assert refused.code == 69
    assert "the test page was not taken" in refused.err
    assert refused.err.count("\n") == 1
