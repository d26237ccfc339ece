"""Asking the daemon: what it knows, and every way in which it can be unknown."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from canaryd.status import live as module
from canaryd.status.live import Live, LiveSeries, ask_daemon
from canaryd.status.remedies import REMEDIES

FACTS = {
    "version": "0.4.0",
    "pid": 930,
    "running_since": "2027-03-02T08:11:00+00:00",
    "store": "sqlite:///c.db",
    "series": {
        "sonnet": {"state": "running 41/300", "blocked": None, "stored": 41, "planned": 300, "next_run": None},
        "haiku": {
            "state": "standby",
            "blocked": "not_holder",
            "stored": None,
            "planned": None,
            "next_run": "2027-03-29T03:10:00+00:00",
        },
    },
}


@pytest.fixture
def serving() -> Iterator[Callable[[bytes, int], str]]:
    servers: list[HTTPServer] = []

    def start(body: bytes, status: int = 200) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                assert self.path == "/-/status"
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Stay quiet."""

        servers.append(HTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"127.0.0.1:{servers[-1].server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_what_the_daemon_knows(serving: Any) -> None:
    address = serving(json.dumps(FACTS).encode())
    live = ask_daemon(address, store="sqlite:///c.db")
    due = datetime(2027, 3, 29, 3, 10, tzinfo=UTC)
    assert live == Live(
        address,
        None,
        "0.4.0",
        930,
        datetime(2027, 3, 2, 8, 11, tzinfo=UTC),
        {
            "sonnet": LiveSeries("running 41/300", None, 41, 300, None),
            "haiku": LiveSeries("standby", "not_holder", None, None, due),
        },
    )
    assert live.to_json()["pid"] == 930
    assert live.to_json()["copies"] == {}
    failing = serving(json.dumps({**FACTS, "copies": {"backup": "no folder"}}).encode())
    assert ask_daemon(failing, store="sqlite:///c.db").copies == {"backup": "no folder"}
    assert live.series_json("haiku") == FACTS["series"]["haiku"]
    unknown = live.series_json("nosuch")
    assert isinstance(unknown, dict)
    assert str(unknown["state"]).startswith("does not know this series, which it began without; restart it")


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (json.dumps(FACTS).encode(), 200, "a daemon of another store answers there"),
        (b"not ready", 503, "it answers with status 503"),
        (b"[]", 200, "what answers there is no daemon"),
        (b"<html>", 200, "what answers there is no daemon"),
        (b'{"running_since": "2027-03-02T08:11:00+00:00"}', 200, "what answers there is no daemon"),
    ],
)
def test_what_is_not_told_is_unknown(serving: Any, body: bytes, status: int, why: str) -> None:
    live = ask_daemon(serving(body, status), store="sqlite:///other.db")
    assert (live.unknown, live.running_since, live.pid, dict(live.series)) == (why, None, None, {})


def test_nothing_there_and_something_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    with closing(socket.socket()) as mute:
        mute.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        refused = ask_daemon(address, store="x").unknown
        assert refused is not None
        assert refused.startswith("nothing answers")
        mute.listen()
        assert ask_daemon(address, store="x").unknown == "no answer of a daemon within 0 s (TimeoutError)"
    assert ask_daemon("nonsense", store="x").unknown == "nothing answers (ValueError)"


def test_a_password_is_not_known_and_that_is_said(serving: Any) -> None:
    address = serving(b"Unauthorized", 401)
    assert ask_daemon(address, store="x").unknown == (
        "it wants a user and a password (--web.config.file), which status has not, so what only it knows is not asked; "
        f"see http://{address}/-/status"
    )


@pytest.fixture
def answering() -> Iterator[Callable[[bytes, int], str]]:
    """Return a function that starts a server which says some bytes so often, one by one while the other end listens."""
    open_sockets: list[socket.socket] = []

    def start(said: bytes, times: int) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        open_sockets.append(listening)

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.recv(65536)
                for _ in range(times):
                    connection.sendall(said)

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for each in open_sockets:
        each.close()


@pytest.mark.parametrize("said", [b"", b"\x15\x03\x01\x00\x02\x02\x46"])
def test_tls_is_not_spoken_and_that_is_said(answering: Any, said: bytes) -> None:
    address = answering(said, 1)
    assert ask_daemon(address, store="x").unknown == (
        "it does not answer without TLS, which status does not speak, so what only it knows is not asked; "
        f"see https://{address}/-/status"
    )


def test_a_server_that_dribbles_gets_no_longer_than_a_mute_one(answering: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each look at the clock takes half a second, and every byte comes before its own patience is over.
    looks = count()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(looks) / 2))
    address = answering(b"HTTP/1.1 200 OK\r\nX: 1\r\n", 10_000)
    assert ask_daemon(address, store="x").unknown == "no answer of a daemon within 2 s (TimeoutError)"
    assert next(looks) == 5


def test_every_reason_has_a_command() -> None:
    from canaryd.metrics.catalogue import BLOCKED_REASONS

    assert set(REMEDIES) == set(BLOCKED_REASONS)
