"""A loopback model server that can misbehave, and what the provider tests build with."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from canaryd.providers import build_provider
from canaryd.providers.base import Provider, ProviderError, Surroundings
from canaryd.providers.secret import Secret
from canaryd.records import Arm, Ask, GraderSpec, Item, Reply

KEY = "sk-planted-0123456789abcdef"
ITEM = Item("i-1", "sums", "i-1", "What is twenty plus twenty-two?", 42, GraderSpec("number"))

#: The failure kind of each case; None is a measurement.
KINDS = {
    "good": None,
    "no usage": None,
    "echo": None,
    "refusal": "refusal",
    "content filter": "content_filtered",
    "prompt filtered": "content_filtered",
    "truncated": "truncated",
    "eaten by reasoning": "truncated",
    "empty": "empty",
    "malformed": "malformed",
    "rate limited": "rate_limited",
    "quota": "quota",
    "overloaded": "overloaded",
    "overloaded 529": "overloaded",
    "server error": "server_error",
    "broken JSON": "server_error",
    "broken stream": "server_error",
    "error inside 200": "overloaded",
    "auth": "auth",
    "not found": "not_found",
    "bad request": "bad_request",
    "redirect": "not_found",
    "cached": "replayed",
    "asked twice": "harness_retried",
    "stall": "timeout",
    "slow drip": "timeout",
    "reset": "connection",
}


@dataclass(frozen=True)
class Scripted:
    """One reply of the server: a status with a body, or a way to misbehave.

    `drip` sends the body a byte at a time and never ends it; `stall` reads the request and stays silent; `reset` breaks
    the connection after `len(body)` bytes of an announced longer one.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    manner: str = "plain"


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class Loopback:
    """A threaded HTTP server on 127.0.0.1; `received` is what arrived.

    `script` says what comes next; `choose`, where it is given, answers by what was asked.
    """

    def __init__(self, choose: Callable[[Received], Scripted] | None = None) -> None:
        self.received: list[Received] = []
        self._choose = choose or self._next
        self._scripted: list[Scripted] = []
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def script(self, *replies: Scripted) -> None:
        """Queue replies; the last one is repeated."""
        self._scripted = list(replies)

    def close(self) -> None:
        """Stop serving; silent connections are let go."""
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _next(self, _: Received) -> Scripted:
        return self._scripted.pop(0) if len(self._scripted) > 1 else self._scripted[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                """Keep quiet."""

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                arrived = Received(self.command, self.path, headers, json.loads(raw) if raw else None)
                loopback.received.append(arrived)
                self._play(loopback._choose(arrived))

            do_GET = do_POST

            def _play(self, reply: Scripted) -> None:
                self.close_connection = reply.manner != "plain"
                if reply.manner == "stall":
                    loopback._closing.wait()
                    return
                self.send_response(reply.status)
                self.send_header("content-type", "application/json")
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(reply.body) + (reply.manner != "plain")))
                self.end_headers()
                if reply.manner == "drip":
                    self._drip(reply.body)
                else:
                    self.wfile.write(reply.body)
                if reply.manner == "reset":
                    self.wfile.flush()
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()

            def _drip(self, body: bytes) -> None:
                for n in range(len(body)):
                    try:
                        self.wfile.write(body[n : n + 1])
                    except OSError:
                        return
                    if loopback._closing.wait(0.02):
                        return
                loopback._closing.wait()

        return Handler


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    server = Loopback()
    yield server
    server.close()


@pytest.fixture
def ask() -> Ask:
    return Ask(
        series="s",
        arm="tracked",
        slot_date=date(2026, 1, 5),
        item_id=ITEM.item_id,
        replicate=0,
        system="Answer inside answer tags.",
        prompt=ITEM.prompt,
    )


@pytest.fixture
def make_arm() -> Callable[..., Arm]:
    def build(provider: str, **changes: Any) -> Arm:
        return Arm(**{"name": "tracked", "role": "tracked", "provider": provider, "model": "m-1", **changes})

    return build


class Wire:
    """One provider in front of something that behaves as a case of the contract says: what the contract tests drive.

    Each file in `wires/` describes one: its provider, its cases, and how to arrange a case. For those that speak HTTP
    that is a reply of the loopback server, and the cases that any HTTP server can play are added here.
    """

    def __init__(self, name: str, *, loopback: Loopback, make_arm: Callable[..., Arm], folder: Path) -> None:
        self.described = WIRES[name]
        self.loopback = loopback
        self._make_arm = make_arm
        self._folder = folder

    def play(self, *replies: Mapping[str, Any]) -> None:
        """Let the server send these replies, one after the other."""
        planted = [{**reply, "body": reply["body"].replace(b"KEY", KEY.encode())} for reply in replies]
        self.loopback.script(*(Scripted(**reply) for reply in planted))

    def provider(self, case: str | Mapping[str, Any], **changes: Any) -> Provider:
        """Build the provider and arrange a case, given by name or as a reply of the server."""
        if "arrange" in self.described:
            arranged = self.described["arrange"](case, url=self.loopback.url, folder=self._folder)
        else:
            reply = self.described["CASES"][case] if isinstance(case, str) else case
            self.play(reply)
            arranged = self.described["arm"](self.loopback.url)
        for table in ("params", "options"):
            merged = {**arranged.get(table, {}), **changes.get(table, {})}
            changes[table] = {name: value for name, value in merged.items() if value is not None}
        arm = self._make_arm(self.described["PROVIDER"], **{**arranged, **changes})
        secret = Secret(self.described.get("SECRET", KEY), source="planted")
        return build_provider(arm, Surroundings(env=dict(os.environ), secret=secret, items=[ITEM]))


def _described(path: Path) -> dict[str, Any]:
    wire = runpy.run_path(str(path))
    if "error" in wire:
        good, error = wire["good"], wire["error"]
        wire["CASES"] = {
            "rate limited": error(429, "rate_limit_error", **{"retry-after": "7"}),
            "overloaded": error(503, "unavailable"),
            "overloaded 529": error(529, "overloaded_error"),
            "server error": error(500, "api_error"),
            "broken JSON": {"body": b'{"id": "reply'},
            "redirect": {"status": 302, "body": b"", "headers": {"location": "/elsewhere"}},
            "cached": {**good(), "headers": {"x-cache": "HIT from gateway"}},
            "stall": {"body": b"", "manner": "stall"},
            "slow drip": {**good(), "manner": "drip"},
            "reset": {**good(), "manner": "reset"},
            **wire["CASES"],
        }
    return wire


WIRES = {path.stem: _described(path) for path in sorted(Path(__file__).with_name("wires").glob("*.py"))}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a contract test on every wire, or on every wire and every case that can be played on it."""
    if "case" in metafunc.fixturenames:
        pairs = [(wire, case) for wire in WIRES for case in WIRES[wire]["CASES"]]
        metafunc.parametrize(("wire", "case"), pairs, indirect=["wire"])
    elif "wire" in metafunc.fixturenames:
        metafunc.parametrize("wire", WIRES, indirect=True)
    elif "http_wire" in metafunc.fixturenames:
        metafunc.parametrize("http_wire", [name for name in WIRES if "error" in WIRES[name]], indirect=True)


@pytest.fixture
def wire_of(loopback: Loopback, make_arm: Callable[..., Arm], tmp_path: Path) -> Callable[[str], Wire]:
    """Return the wire of one provider by name, for what is peculiar to it."""
    return lambda name: Wire(name, loopback=loopback, make_arm=make_arm, folder=tmp_path)


@pytest.fixture
def wire(request: pytest.FixtureRequest, wire_of: Callable[[str], Wire]) -> Wire:
    return wire_of(request.param)


@pytest.fixture
def http_wire(request: pytest.FixtureRequest, wire_of: Callable[[str], Wire]) -> Wire:
    """A wire on which canaryd itself speaks HTTP, neither through a program nor with itself."""
    return wire_of(request.param)


@pytest.fixture
def kinds_of_cases() -> Mapping[str, str | None]:
    return KINDS


@pytest.fixture
def outcome() -> Callable[[Provider, Ask], Reply | ProviderError]:
    """Ask once and close: the reply, or the error that was raised."""

    def play(provider: Provider, ask: Ask) -> Reply | ProviderError:
        async def once() -> Reply | ProviderError:
            try:
                return await provider.ask(ask)
            except ProviderError as error:
                return error
            finally:
                await provider.aclose()

        return asyncio.run(once())

    return play
