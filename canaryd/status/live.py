"""What only the running daemon knows, asked of it with a short patience; what it does not tell is unknown."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from canaryd.records import JsonValue

PATIENCE_S = 2.0
_MOST_BYTES = 1_000_000
_TLS_ALERT = b"\x15"
_OK, _UNAUTHORIZED = 200, 401


class LiveSeries(NamedTuple):
    """One series in the daemon: a line for a person, the samples of the slot being measured, when it runs next.

    `webhook` is what the daemon tells of the messages that were not taken, as `canaryd alarms` shows it.
    """

    state: str
    blocked: str | None
    stored: int | None
    planned: int | None
    next_run: datetime | None
    webhook: Mapping[str, Any] = MappingProxyType({})


_UNKNOWN = LiveSeries(
    "does not know this series, which it began without; restart it (systemctl restart canaryd)", None, None, None, None
)


class Live(NamedTuple):
    """The answer of the daemon at an address; without one, `unknown` says why and the rest is empty.

    `copies` says of [backup] and [export] why the last copy failed, where it did.
    """

    address: str
    unknown: str | None = None
    version: str | None = None
    pid: int | None = None
    running_since: datetime | None = None
    series: Mapping[str, LiveSeries] = MappingProxyType({})
    copies: Mapping[str, str] = MappingProxyType({})

    def of(self, name: str) -> LiveSeries | None:
        """Return what the daemon knows of a configured series, None where it cannot be asked."""
        if self.running_since is None:
            return None
        found = self.series.get(name)
        return _UNKNOWN if found is None else found

    def to_json(self) -> dict[str, JsonValue]:
        """Return it as JSON, without the series, which stand with theirs."""
        since = self.running_since.isoformat() if self.running_since else None
        return {
            "address": self.address,
            "unknown": self.unknown,
            "version": self.version,
            "pid": self.pid,
            "running_since": since,
            "copies": dict(self.copies),
        }

    def series_json(self, name: str) -> JsonValue:
        """Return what the daemon knows of a series as JSON, None where nothing is known."""
        one = self.of(name)
        if one is None:
            return None
        return {
            "state": one.state,
            "blocked": one.blocked,
            "stored": one.stored,
            "planned": one.planned,
            "next_run": one.next_run.isoformat() if one.next_run else None,
        }


def ask_daemon(address: str, *, store: str) -> Live:
    """Return what the daemon that listens at HOST:PORT knows, if it is one of the store named so.

    The whole of it takes no longer than the patience. Nothing is imported for it until something answers, so that a
    status without a daemon is not slower.
    """
    until_s = time.monotonic() + PATIENCE_S
    host, _, port = address.rpartition(":")
    try:
        connection = socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE_S)
    except (OSError, ValueError, OverflowError) as error:
        return Live(address, f"nothing answers ({getattr(error, 'strerror', None) or type(error).__name__})")
    with connection:
        try:
            answer = _answer(connection, address, until_s=until_s)
        except OSError as error:
            return Live(address, f"no answer of a daemon within {PATIENCE_S:.0f} s ({type(error).__name__})")
    try:
        facts = _facts(answer, address)
        if isinstance(facts, str):
            return Live(address, facts)
        if facts["store"] != store:
            return Live(address, "a daemon of another store answers there")
        return Live(
            address,
            version=facts["version"],
            pid=facts["pid"],
            running_since=datetime.fromisoformat(facts["running_since"]),
            series={name: _series(one) for name, one in facts["series"].items()},
            copies=facts.get("copies", {}),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return Live(address, "what answers there is no daemon")


def _answer(connection: socket.socket, address: str, *, until_s: float) -> bytes:
    """Return all that is served at /-/status; a server that dribbles gets no longer than one that is mute.

    Raises:
        TimeoutError: the answer was not whole by then, on the monotonic clock.
    """
    connection.sendall(f"GET /-/status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
    received = b""
    while len(received) <= _MOST_BYTES:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        part = connection.recv(65536)
        if not part:
            break
        received += part
    return received


class _Received:
    """A socket from which only what was received can be read."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _facts(received: bytes, address: str) -> dict[str, Any] | str:
    """Return what an answer says, or why that is nothing."""
    from http.client import HTTPException, HTTPResponse

    if received[:1] in (b"", _TLS_ALERT):
        return (
            "it does not answer without TLS, which status does not speak, so what only it knows is not asked; see "
            f"https://{address}/-/status"
        )
    answer = HTTPResponse(_Received(received))  # type: ignore[arg-type]  # it makes a file of it and nothing else
    try:
        answer.begin()
        body = answer.read()
    except HTTPException:
        return "what answers there speaks no HTTP"
    if answer.status == _UNAUTHORIZED:
        return (
            "it wants a user and a password (--web.config.file), which status has not, so what only it knows is not "
            f"asked; see http://{address}/-/status"
        )
    if answer.status != _OK:
        return f"it answers with status {answer.status}"
    facts = json.loads(body)
    return facts if isinstance(facts, dict) and "running_since" in facts else "what answers there is no daemon"


def _series(one: Mapping[str, Any]) -> LiveSeries:
    next_run = datetime.fromisoformat(one["next_run"]) if one["next_run"] else None
    return LiveSeries(one["state"], one["blocked"], one["stored"], one["planned"], next_run, one.get("webhook", {}))
