"""The demo as Prometheus and the store keep it, without waiting: `recording.py FOLDER [--quick]`.

The days are played at once. What a daemon would have shown is taken after each of the last ones and written as blocks
of Prometheus at the times of the demo's calendar, one scrape every five minutes. What the demo has none of is added: a
budget, calls that fail, programs of models, another model behind a name, a refused harness, an invalid sample.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from canaryd.config import Config, parse
from canaryd.daemon.counting import counted_calls
from canaryd.daemon.writes import count_writes
from canaryd.demo.plan import FULL, QUICK, DemoPlan
from canaryd.demo.play import DUE_MINUTE, open_project, play, stored_plan, write_project
from canaryd.hashing import digest
from canaryd.metrics.collector import ProcessMetrics, SnapshotCollector
from canaryd.metrics.money import purse_of
from canaryd.metrics.snapshot import take_snapshot
from canaryd.metrics.values import Snapshot
from canaryd.records import RunEnd
from canaryd.runner.calls import call
from canaryd.runner.clock import clock_of
from canaryd.runner.closing import Books, Refused, refuse_arm
from canaryd.runner.project import held
from canaryd.schedule import due_at, policy_of
from canaryd.store import read
from canaryd.store.acknowledgements import Acknowledgement, add_acknowledgement
from canaryd.store.engine import open_store
from canaryd.store.events import Event, add_events
from canaryd.store.regrades import Regrade, append_regrade
from canaryd.store.rows import Invalid
from canaryd.store.write import append_validity

SERIES, TARGET = "demo", 'job="canaryd",instance="127.0.0.1:10877"'
SCRAPE = timedelta(minutes=5)
#: What a daemon sets anew between two scrapes.
ALWAYS_NOW = ("canaryd_snapshot_timestamp_seconds", "canaryd_scheduler_last_tick_timestamp_seconds")
MONEY = """
[series.budget]
money_per_day = 0.5
money_per_month = 10
"""
PRICE = """
[[price]]
provider = "openai"
model = "{}"
from = 2026-01-01
input_per_million = 0.25
output_per_million = 2.0
"""

Page = dict[str, float]


@dataclass(frozen=True)
class Recording:
    """A folder with the demo's project and with Prometheus' blocks; `now` is the moment at which one looks."""

    folder: Path

    @property
    def project(self) -> Path:
        """The folder of the demo's project."""
        return self.folder / "project"

    @property
    def blocks(self) -> Path:
        """The folder of Prometheus' blocks."""
        return self.folder / "prometheus"

    @property
    def plan(self) -> DemoPlan:
        """What was played."""
        return stored_plan(self.project)

    @property
    def config(self) -> Config:
        """The configuration of the project."""
        return open_project(self.project)

    @property
    def now(self) -> datetime:
        """When the slot after the play is due: the last window is decided, and one arm was refused its next run."""
        return due_at(self.plan.date_of(self.plan.days + 1), DUE_MINUTE)


class Daemon:
    """What a daemon would show on /metrics, of a play in this process."""

    def __init__(self, config: Config) -> None:
        self._config, self._registry = config, CollectorRegistry()
        self._snapshot: Snapshot | None = None
        arms = [(SERIES, arm.name) for arm in config.series[0].arms]
        self._metrics = ProcessMetrics(self._registry, settled=self._registry, arms=arms)
        self._registry.register(SnapshotCollector(lambda: self._snapshot))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        call.set(counted_calls(lambda event: self._metrics.count_call(SERIES, event)))
        count_writes(self._count_write)

    def page(self, now: datetime) -> Page:
        """Return every sample and its value; `now` is the moment of the calendar."""
        config, metrics = self._config, self._metrics
        with open_store(config.store_url) as store:
            taken = take_snapshot(store, [SERIES], policy=policy_of(config), now=now, purse=purse_of(config))
        self._snapshot = taken
        metrics.loaded_config.labels(digest(config.path.read_bytes())).set(1)
        metrics.lease_held.labels(SERIES).set(1)
        for each in (metrics.store_up, metrics.schema_current, metrics.reload_successful):
            each.set(1)
        metrics.reloaded_at.set(now.timestamp())
        metrics.show_copy(now.timestamp())
        families = text_string_to_metric_families(generate_latest(self._registry).decode())
        return {_sample(one.name, one.labels): one.value for family in families for one in family.samples} | {
            f"up{{{TARGET}}}": 1.0
        }

    def count_what_is_rare(self) -> None:
        """Count calls that failed, programs of models, and lines of the log."""
        for kind in ("timeout", "overloaded"):
            for is_retry in (False, True):
                failed = {"arm": "tracked", "retry": is_retry, "failure": kind, "seconds": 15.0}
                self._metrics.count_call(SERIES, failed)
        for seconds, failure in ((0.12, None), (0.3, None), (8.0, "timeout")):
            self._metrics.count_program({"seconds": seconds, "failure": failure})
        for level in ("info", "info", "warning"):
            self._metrics.log_messages.labels(level).inc()

    def _count_write(self, event: Mapping[str, Any]) -> None:
        (self._metrics.store_write_failures if event["failed"] else self._metrics.store_writes).inc()


def _sample(name: str, labels: Mapping[str, str]) -> str:
    own = "".join(f',{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{TARGET}{own}}}"


def record(plan: DemoPlan, folder: Path) -> Recording:
    """Play a demo into a folder and return what was recorded."""
    recording = Recording(folder)
    config = write_project(plan, recording.project)
    with config.path.open("a") as file:
        file.write(MONEY + "".join(PRICE.format(arm.model) for arm in config.series[0].arms))
    config = parse(config.path.read_text(), path=config.path)
    daemon = Daemon(config)
    pages: dict[datetime, Page] = {}

    def on_day(day: int) -> None:
        if day == plan.days:
            daemon.count_what_is_rare()
        if day >= plan.days - 1:
            take(due_at(plan.date_of(day), DUE_MINUTE) + SCRAPE)

    def take(at: datetime) -> None:
        pages[at] = daemon.page(at)

    play(plan, config, on_day=on_day)
    take(clock_of(config).now())
    _add_what_is_rare(config, recording)
    take(recording.now)
    scrapes = folder / "scrapes.txt"
    with scrapes.open("w") as file:
        file.writelines(_scrapes(pages, until=recording.now))
        file.write("# EOF\n")
    # The program that belongs to Prometheus, found on the path like Prometheus itself.
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", scrapes, recording.blocks]
    subprocess.run(command, check=True, capture_output=True)
    scrapes.unlink()
    return recording


def _scrapes(pages: Mapping[datetime, Page], *, until: datetime) -> Iterator[str]:
    """Yield a page again at every scrape until there is another one; of the first day only the end."""
    times = sorted(pages)
    for begins, ends in zip(times, [*times[1:], until + SCRAPE], strict=True):
        at = max(begins, until - timedelta(hours=27))
        while at < ends:
            now_s = at.timestamp()
            for sample, value in pages[begins].items():
                yield f"{sample} {now_s if sample.startswith(ALWAYS_NOW) else value} {now_s:.0f}\n"
            at += SCRAPE


def _add_what_is_rare(config: Config, recording: Recording) -> None:
    """Store what dashboards show and a play of the demo has none of; the calendar moves on to the moment of looking."""
    plan, now = recording.plan, recording.now
    assert config.demo_clock is not None
    config.demo_clock.write_text(f"{now.isoformat()}\n")
    with open_store(config.store_url) as store, held(store, SERIES, clock=clock_of(config)) as lease:
        with store.read() as connection:
            series = read.series(connection, SERIES)
        add_events(
            store,
            [
                Event(SERIES, "tracked", plan.date_of(plan.change_day), "model_roll", {}, now),
                Event(SERIES, "tracked", plan.date_of(plan.days), "input_tokens", {}, now),
                Event(SERIES, "control", plan.date_of(plan.days), "canary_answer", {}, now),
            ],
            lease=lease,
        )
        append_validity(store, Invalid("operator", "", now, sample_id=1))
        add_acknowledgement(store, Acknowledgement(SERIES, "regression", now, now + timedelta(days=3), "known"))
        append_regrade(store, Regrade(SERIES, now, None, ("exact@1",), 1, 0, 0, ()))
        refusal = RunEnd(now, "refused", "harness_drift: another version of the SDK")
        books = Books(store, series, lease, clock=clock_of(config), due_minute=DUE_MINUTE)
        refuse_arm(books, Refused("control", now.date(), refusal, fingerprint="sha256:another"))


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
    return number


if __name__ == "__main__":
    record(replace(QUICK if "--quick" in sys.argv[2:] else FULL, port=free_port()), Path(sys.argv[1]))
