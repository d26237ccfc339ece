"""Signs of life, against a switch on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from structlog.testing import capture_logs

from canaryd.daemon import heartbeat


class Switch:
    """A dead-man's switch that answers with the given statuses in turn, and then with the last of them for ever."""

    def __init__(self, *statuses: int) -> None:
        self.asked: list[str] = []
        waiting = list(statuses)

        class Answer(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                self.asked.append(handler.path)
                handler.send_response(waiting.pop(0) if len(waiting) > 1 else waiting[0])
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(handler, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}/secret"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def switches() -> Iterator[list[Switch]]:
    made: list[Switch] = []
    yield made
    for each in made:
        each.close()


def test_each_signal_has_its_path(switches: list[Switch]) -> None:
    switches.append(Switch(200))
    for signal in ("start", "success", "fail"):
        heartbeat.send(switches[0].url, signal)
    assert switches[0].asked == ["/secret/start", "/secret", "/secret/fail"]


def test_one_that_is_not_taken_is_sent_again(switches: list[Switch]) -> None:
    switches.append(Switch(503, 200))
    with capture_logs() as logs:
        heartbeat.send(switches[0].url, "success")
    assert (switches[0].asked, logs) == (["/secret", "/secret"], [])


def test_a_switch_that_is_dead_is_logged_without_its_url_and_stops_nothing(switches: list[Switch]) -> None:
    switches.append(Switch(500))
    with capture_logs() as logs:
        heartbeat.send(switches[0].url, "fail")
    assert len(switches[0].asked) == 3
    assert [(each["event"], each["signal"], each["reason"]) for each in logs] == [
        ("heartbeat not taken", "fail", "HTTPStatusError")
    ]
    assert "secret" not in str(logs)


def test_without_a_url_nothing_happens() -> None:
    with capture_logs() as logs:
        heartbeat.send(None, "start")
    assert logs == []
