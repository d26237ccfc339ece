"""What only the running daemon knows, asked of it with a short patience; what it does not tell is unknown."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from canaryd.records import JsonValue

PATIENCE_S = 2.0
_MOST_BYTES = 1_000_000


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


class Live(NamedTuple):
    """The answer of the daemon at an address; without one, `unknown` says why and the rest is empty."""

    address: str
    unknown: str | None = None
    version: str | None = None
    pid: int | None = None
    running_since: datetime | None = None
    series: Mapping[str, LiveSeries] = MappingProxyType({})

    def to_json(self) -> dict[str, JsonValue]:
        """Return it as JSON, without the series, which stand with theirs."""
        since = self.running_since.isoformat() if self.running_since else None
        return {
            "address": self.address,
            "unknown": self.unknown,
            "version": self.version,
            "pid": self.pid,
            "running_since": since,
        }

    def series_json(self, name: str) -> JsonValue:
        """Return what the daemon knows of a series as JSON, None where nothing is known."""
        one = self.series.get(name)
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

    Nothing is imported for it until something answers, so that a status without a daemon is not slower.
    """
    host, _, port = address.rpartition(":")
    try:
        connection = socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE_S)
    except (OSError, ValueError, OverflowError) as error:
        return Live(address, f"nothing answers ({getattr(error, 'strerror', None) or type(error).__name__})")
    with connection:
        try:
            facts = _facts(connection, address)
        except (OSError, ValueError) as error:
            return Live(address, f"no answer of a daemon within {PATIENCE_S:.0f} s ({type(error).__name__})")
    if isinstance(facts, str):
        return Live(address, facts)
    if facts.get("store") != store:
        return Live(address, "a daemon of another store answers there")
    return Live(
        address,
        version=facts["version"],
        pid=facts["pid"],
        running_since=datetime.fromisoformat(facts["running_since"]),
        series={name: _series(one) for name, one in facts["series"].items()},
    )


def _facts(connection: socket.socket, address: str) -> dict[str, Any] | str:
    """Return what is served at /-/status, or why that is nothing."""
    from http.client import HTTPConnection, HTTPException

    asked = HTTPConnection(address, timeout=PATIENCE_S)
    asked.sock = connection
    try:
        asked.request("GET", "/-/status")
        answer = asked.getresponse()
        body = answer.read(_MOST_BYTES)
    except HTTPException:
        return "what answers there speaks no HTTP, or TLS"
    if answer.status != 200:
        return f"it answers with status {answer.status}"
    facts = json.loads(body)
    return facts if isinstance(facts, dict) and "running_since" in facts else "what answers there is no daemon"


def _series(one: Mapping[str, Any]) -> LiveSeries:
    next_run = datetime.fromisoformat(one["next_run"]) if one["next_run"] else None
    return LiveSeries(one["state"], one["blocked"], one["stored"], one["planned"], next_run, one.get("webhook", {}))
