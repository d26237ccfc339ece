"""Asking a recording what the dashboards ask: their queries, with the variables chosen, of Prometheus and a store."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2 as httpx
from recording import SCRAPE, Recording, free_port
from sqlalchemy import Connection

Json = dict[str, Any]
DASHBOARDS = Path(__file__).parents[1] / "dashboards"
RULES = Path(__file__).parents[2] / "prometheus" / "canaryd.rules.yml"
#: What Grafana makes of $__rate_interval: four scrapes.
RATE_INTERVAL = f"{int(4 * SCRAPE.total_seconds())}s"
PATIENCE_S = 60.0
ANY = {"job": ".+", "instance": ".+", "series": ".+"}


@dataclass(frozen=True)
class Line:
    """What one query gave of one series of figures; a table's row has one value."""

    name: str
    labels: Mapping[str, str]
    times: Sequence[datetime]
    values: Sequence[float]


def board(source: str, name: str) -> Json:
    """Return a dashboard as it is provisioned."""
    found: Json = json.loads((DASHBOARDS / source / f"canaryd-{name}.json").read_text())
    return found


@dataclass(frozen=True)
class Prometheus:
    """A server over the blocks of a recording."""

    url: str
    now: datetime

    def ask(self, target: Json, *, span: timedelta | None = None) -> list[Line]:
        """Return the lines of a panel's query: over a span that ends now, or now alone."""
        query = target["expr"].replace("$__rate_interval", RATE_INTERVAL)
        for name, choice in ANY.items():
            query = query.replace(f"${name}", choice)
        return self.query(query, legend=target["legendFormat"], span=span)

    def query(self, query: str, *, legend: str = "", span: timedelta | None = None) -> list[Line]:
        """Return the lines of a query, named by a legend in which {{label}} stands for the label's value.

        Raises:
            httpx.HTTPStatusError: Prometheus refuses the query.
        """
        if span is None:
            answer = self._get("query", query=query, time=self.now.timestamp())
        else:
            ends = {"start": (self.now - span).timestamp(), "end": self.now.timestamp()}
            answer = self._get("query_range", query=query, step=SCRAPE.total_seconds(), **ends)
        lines = []
        for each in answer["result"]:
            labels, points = each["metric"], each.get("values") or [each["value"]]
            times = [datetime.fromtimestamp(at, UTC) for at, _ in points]
            name = re.sub(r"\{\{(\w+)\}\}", lambda found, labels=labels: labels.get(found[1], ""), legend)
            lines.append(Line(name, labels, times, [float(value) for _, value in points]))
        return lines

    def _get(self, what: str, **parameters: Any) -> Json:
        answer = httpx.get(f"{self.url}/api/v1/{what}", params=parameters, timeout=PATIENCE_S, trust_env=False)
        answer.raise_for_status()
        found: Json = answer.json()["data"]
        return found


@contextmanager
def prometheus(recording: Recording) -> Iterator[Prometheus]:
    """Run Prometheus on a copy of the recorded blocks, as long as the block lasts.

    Raises:
        RuntimeError: it does not start.
    """
    address = f"127.0.0.1:{free_port()}"
    with TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        home = Path(folder)
        shutil.copytree(recording.blocks, home / "data")
        (home / "prometheus.yml").write_text("global: {}\n")
        options = [f"--config.file={home / 'prometheus.yml'}", f"--storage.tsdb.path={home / 'data'}"]
        # Blocks hold no mark where a series ended, so that it must not be looked for in the scrape before.
        options += [f"--web.listen-address={address}", "--query.lookback-delta=4m", "--storage.tsdb.retention.time=10y"]
        server = subprocess.Popen(["prometheus", *options], stdout=log, stderr=log)
        try:
            deadline_s = time.monotonic() + PATIENCE_S
            while not _is_ready(address):
                if server.poll() is not None or time.monotonic() > deadline_s:
                    raise RuntimeError(f"Prometheus does not start: {(home / 'log').read_text()}")
                time.sleep(0.05)
            yield Prometheus(f"http://{address}", recording.now)
        finally:
            server.kill()
            server.wait()


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/-/ready", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@dataclass(frozen=True)
class Views:
    """The views of a store, with what a person chose in the dashboard."""

    connection: Connection
    chosen: Mapping[str, str]
    first: datetime
    last: datetime

    def ask(self, query: str) -> list[Json]:
        """Return the rows of a query."""
        for name, value in self.chosen.items():
            query = query.replace(f"${{{name}:sqlstring}}", f"'{value}'")
        for name, at in (("from", self.first), ("to", self.last)):
            query = query.replace(f"${{__{name}:date:seconds}}", f"{at.timestamp():.0f}")
        if "$" in query:
            raise ValueError(f"a variable is not chosen in: {query}")
        return [dict(row) for row in self.connection.exec_driver_sql(query).mappings()]


def views(connection: Connection, recording: Recording) -> Views:
    """Return the views as one sees them who looks for what changed: between the baseline and the last window, at the
    item that changed most."""
    first = datetime.combine(recording.plan.date_of(0), datetime.min.time(), UTC)

    def seen(chosen: Mapping[str, str]) -> Views:
        return Views(connection, chosen, first, recording.now)

    queries = {
        each["name"]: each["query"]
        for name in ("series", "items")
        for each in board("sqlite", name)["templating"]["list"]
    }
    chosen: dict[str, str] = {}
    for name, which in (("series", 0), ("control", 0), ("before", 0), ("after", -1)):
        (chosen[name],) = seen(chosen).ask(queries[name])[which].values()
    by_change = board("sqlite", "items")["panels"][0]["targets"][0]
    return seen(chosen | {"item": seen(chosen).ask(sql(by_change))[0]["item_id"]})


def sql(target: Json) -> str:
    """Return the SQL of a panel's query for either data source."""
    query: str = target.get("queryText") or target["rawSql"]
    return query
