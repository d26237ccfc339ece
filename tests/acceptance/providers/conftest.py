"""Projects with one series on each real provider, each in front of the same loopback server."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from canaryd import graders
from canaryd.hashing import digest
from canaryd.panel import freeze, load, lock_path
from canaryd.store.engine import open_store
from canaryd.store.migrate import upgrade
from canaryd.store.rows import PanelFiles, Plan
from canaryd.store.write import register_series

ROOT = Path(__file__).parents[3]
SPOKEN = runpy.run_path(str(ROOT / "tests" / "providers" / "conftest.py"))
DAY_1 = date(2027, 1, 1)
#: Each series, the wire it is spoken to over, and the form of its key.
SERIES = {
    "openai": "openai_chat",
    "anthropic": "anthropic",
    "bedrock": "bedrock",
    "profile": "bedrock",
    "claude": "claude_cli",
    "http": "http",
}
#: Passes each question on to the server and prints what that says, as the program would.
STUB = """#!{python} -IS
import json, os, signal, socket, sys
if "--version" in sys.argv:
    print("{version} (Claude Code)")
    raise SystemExit
address, _, path = os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://").partition("/")
host, port = address.split(":")
body = json.dumps({{"prompt": sys.stdin.read()}}).encode()
head = f"POST /{{path}}/claude HTTP/1.1\\r\\nx-api-key: {{os.environ['ANTHROPIC_API_KEY']}}\\r\\n"
with socket.create_connection((host, int(port))) as connection, connection.makefile("rb") as answer:
    connection.sendall(head.encode() + b"content-length: %d\\r\\n\\r\\n" % len(body) + body)
    size = 0
    while line := answer.readline().strip():
        if line.lower().startswith(b"content-length:"):
            size = int(line.split()[1])
    plan = json.loads(answer.read(size))
print(plan["stdout"], flush=True)
print(plan["stderr"], file=sys.stderr)
if plan["stalls"]:
    signal.pause()
raise SystemExit(plan["status"])
"""


@dataclass
class RealProviders:
    """A project of several series; `choose` answers every request, given series, arm, the item's id and the request."""

    folder: Path
    choose: Callable[[str, str, str, Any], Any]
    items: Mapping[str, Mapping[str, Any]]
    timeout_s: float = 5.0
    server: Any = None
    by_prompt: dict[str, str] = field(default_factory=dict)
    replies: int = 0

    def start(self) -> None:
        """Begin to serve, and write the panel and the program that plays claude."""
        self.by_prompt = {item["prompt"]: item_id for item_id, item in self.items.items()}
        self.server = SPOKEN["Loopback"](self._answer)
        header = {"name": "p", "version": "1", "licence": "CC0-1.0", "canary": "00000000-0000-4000-8000-000000000000"}
        rows = [header, *({"id": item_id, **item} for item_id, item in self.items.items())]
        panel = self.folder / "panel.jsonl"
        panel.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (self.folder / "panel.system.txt").write_text("Answer in tags.\n")
        Path(lock_path(str(panel))).write_bytes(freeze(load(str(panel), graders=graders)))
        registration = (ROOT / "prereg.example.toml").read_text()
        for name in ("baseline_days", "window_days"):
            registration = re.sub(rf"^{name} = \d+", f"{name} = 2", registration, count=1, flags=re.MULTILINE)
        (self.folder / "prereg.toml").write_text(registration)
        stub = self.folder / "claude"
        stub.write_text(STUB.format(python=sys.executable, version=self.wire("claude")["VERSION"]))
        stub.chmod(0o755)
        self.set_clock(0)

    @property
    def url(self) -> str:
        """The address of the store."""
        return f"sqlite:///{self.folder / 'canaryd.db'}"

    def wire(self, series: str) -> dict[str, Any]:
        """Return what describes the wire of a series."""
        described: dict[str, Any] = SPOKEN["WIRES"][SERIES[series]]
        return described

    def arm(self, series: str, role: str, *, credential: str | None, **changes: Any) -> dict[str, Any]:
        """Return one arm as a table of the configuration."""
        url = f"{self.server.url}/{series}/{role}"
        if series == "claude":
            version = self.wire("claude")["VERSION"]
            arm = {"base_url": url, "options": {"executable": str(self.folder / "claude"), "version": version}}
        else:
            arm = self.wire(series)["arm"](url)
        named = {"name": role, "role": role, "provider": self.wire(series)["PROVIDER"], "model": "m-1"}
        key = {} if credential is None else {"credential": credential}
        return {**named, "timeout_s": self.timeout_s, **key, **arm, **changes}

    def judge(self, series: str, *, credential: str) -> str:
        """Return the table of a series' judge, which is spoken to as the series http is, under the role `judge`."""
        judge = {"family": "other", "version": "1", "provider": "http", "model": "judge", "anchors": "anchors.jsonl"}
        limits = {"credential": credential, "timeout_s": self.timeout_s, "concurrency": 4}
        return "[series.judge]\n" + toml(
            {**judge, **limits, **self.wire("http")["arm"](f"{self.server.url}/{series}/judge")}
        )

    def write(self, arms: Mapping[str, list[dict[str, Any]]], *, head: str = "", judged_by: str | None = None) -> None:
        """Write the configuration and register every series, without the simulation that registering makes."""
        text = f'[store]\nurl = "sqlite:///canaryd.db"\n[demo]\nclock = "clock.txt"\n{head}\n'
        for series, tables in arms.items():
            text += f'[[series]]\nname = "{series}"\npanel = "panel.jsonl"\n'
            text += "".join(f"[[series.arm]]\n{toml(table)}" for table in tables)
            text += "" if judged_by is None else self.judge(series, credential=judged_by)
        (self.folder / "config.toml").write_text(text)
        from canaryd.config import parse

        upgrade(self.url)
        panel = load(str(self.folder / "panel.jsonl"), graders=graders)
        registration = (self.folder / "prereg.toml").read_bytes()
        content, system = ((self.folder / name).read_bytes() for name in ("panel.jsonl", "panel.system.txt"))
        with open_store(self.url) as store:
            for series in parse(text, path=self.folder / "config.toml").series:
                plan = Plan(
                    series=series.name,
                    registered_at=datetime(2026, 12, 31, 12, tzinfo=UTC),
                    start_date=DAY_1,
                    seed=1,
                    registration=registration,
                    registration_digest=digest(registration),
                    panel=PanelFiles(panel.digest, panel.name, panel.version, content, system),
                    items=panel.items,
                    arms=series.arms,
                )
                register_series(store, plan)

    def set_clock(self, day: int, hour: int = 3, minute: int = 10) -> None:
        """Move the calendar to a time of series day `day`."""
        moment = datetime(DAY_1.year, DAY_1.month, DAY_1.day, hour, minute, tzinfo=UTC) + timedelta(days=day - 1)
        fresh = self.folder / "clock.new"
        fresh.write_text(moment.isoformat() + "\n")
        fresh.replace(self.folder / "clock.txt")

    def reply(
        self, series: str, item_id: str, case: str | Mapping[str, Any] = "good", *, answer: str | None = None
    ) -> dict[str, Any]:
        """Return a case of a series' wire with an answer (the item's own) in it and ids that came never before."""
        reply = dict(self.wire(series)["CASES"][case] if isinstance(case, str) else case)
        said = answer or ("ok" if item_id == "pre-flight" else str(self.items[item_id]["target"]))
        self.replies += 1
        fresh = b"-%d-" % self.replies
        body = reply.pop("stdout").encode() if series == "claude" else reply["body"]
        body = body.replace(b"42</answer>", json.dumps(f"{said}</answer>")[1:-1].encode())
        body = re.sub(rb"\b(reply|msg|s)-(?=\d)", rb"\g<0>" + fresh, body)
        if series == "claude":
            return {"body": json.dumps({"stdout": body.decode(), **reply}).encode()}
        if "x-amzn-requestid" in reply.get("headers", {}):
            reply["headers"] = {**reply["headers"], "x-amzn-requestid": f"reply{fresh.decode()}"}
        return {**reply, "body": body}

    def same_id(self, series: str, reply: dict[str, Any]) -> dict[str, Any]:
        """Return a reply under an id that each of them bears."""
        if "x-amzn-requestid" in reply.get("headers", {}):
            return {**reply, "headers": {**reply["headers"], "x-amzn-requestid": "reply-0"}}
        return {**reply, "body": re.sub(rb"\b(reply|msg|s)-[\d-]+", rb"\g<1>-0", reply["body"])}

    def _answer(self, arrived: Any) -> Any:
        series, role = arrived.path.split("/")[1:3]
        item_id = next((self.by_prompt[text] for text in texts(arrived.body) if text in self.by_prompt), "pre-flight")
        reply = self.choose(series, role, item_id, arrived)
        return SPOKEN["Scripted"](**reply)


def texts(value: Any) -> Iterator[str]:
    """Yield every text inside a JSON value."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)


def toml(table: Mapping[str, Any]) -> str:
    """Return a table's lines; tables inside it are written inline."""
    return "".join(f"{key} = {_inline(value)}\n" for key, value in table.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(inner)}" for key, inner in value.items()) + " }"
    return json.dumps(value)


@pytest.fixture
def kinds() -> Mapping[str, str | None]:
    """The failure kind of each case of the wires; None is a measurement."""
    found: Mapping[str, str | None] = SPOKEN["KINDS"]
    return found


@pytest.fixture
def real_providers(tmp_path: Path) -> Iterator[Callable[..., RealProviders]]:
    """Return a function that begins a project in a folder of its own."""
    begun: list[RealProviders] = []

    def begin(choose: Callable[..., Any], *, items: Mapping[str, Mapping[str, Any]], **changes: Any) -> RealProviders:
        folder = tmp_path / "project"
        folder.mkdir()
        project = RealProviders(folder, choose, items, **changes)
        begun.append(project)
        project.start()
        return project

    yield begin
    for project in begun:
        project.server.close()
