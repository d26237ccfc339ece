"""A scrape of `/metrics` against plain prometheus_client gauges with as many lines, on the same web server."""

from __future__ import annotations

import http.client
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, PlatformCollector, ProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from benchmarks import measured_days
from benchmarks.figures import Figure, at_most
from canaryd.config import parse
from canaryd.daemon.web import Listen, Views, WebServer
from canaryd.metrics.catalogue import BY_NAME
from canaryd.metrics.collector import ProcessMetrics, SnapshotCollector
from canaryd.metrics.exposition import Exposition
from canaryd.metrics.snapshot import take_snapshot
from canaryd.metrics.values import Snapshot
from canaryd.runner.clock import clock_of
from canaryd.schedule import policy_of
from canaryd.store.engine import open_store

Scrape = Callable[[], str]


class Current:
    """The snapshot that is served; `refresh` puts an equal new one in its place, as the daemon does."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def refresh(self) -> None:
        """Serve a new snapshot with the same values."""
        self.snapshot = replace(self.snapshot, taken_s=self.snapshot.taken_s + 1)


def figures(*, smoke: bool) -> list[Figure]:
    """Return the processor time of a scrape on an unchanged snapshot, and on one that is new at every scrape."""
    days, items, series, pairs = (2, 24, 2, 2) if smoke else (20, 24, 10, 200)
    current = Current(snapshot_of(days=days, items=items, series=series))
    with serving(exposition_of(current, series=series)) as ours:
        text = ours()
        with serving(_unkept(gauges_like(text))) as peer:
            lines = samples_in(text)
            assert samples_in(peer()) == lines, "the peer exposes another number of samples"
            assert all(f'series="s{n}"' in text for n in range(series))
            unchanged = ratio(ours, peer, pairs=pairs)
            rebuilt = ratio(ours, peer, pairs=pairs, before=current.refresh)
    size = f"{series} series of 2 arms, {lines} samples; {pairs} pairs"
    against = "plain prometheus_client gauges, as many samples, same server"
    return [
        at_most("Scrape, unchanged snapshot", against, size=size, ratio=unchanged, goal=0.15),
        at_most("Scrape, new snapshot", against, size=size, ratio=rebuilt, goal=1.0),
    ]


def snapshot_of(*, days: int, items: int, series: int) -> Snapshot:
    """Measure one series in a store, and return a snapshot in which as many series as wanted have its values.

    The store is gone when this returns: no scrape can reach it.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measured_days.fill(folder, days=days, items=items)
        config = parse(measured_days.CONFIG, path=folder / "config.toml")
        now = clock_of(config).now() + timedelta(hours=1)
        with open_store(config.store_url) as store:
            one = take_snapshot(store, ["bench"], policy=policy_of(config), now=now)
    values = {}
    for metric, found in one.values.items():
        is_of_series = BY_NAME[metric].labels[:1] == ("series",)
        names = [f"s{n}" for n in range(series)]
        values[metric] = (
            {(name, *labels[1:]): value for name in names for labels, value in found.items()} if is_of_series else found
        )
    return replace(one, values=values)


def exposition_of(current: Current, *, series: int) -> Exposition:
    """Return what a daemon with that many series of two arms exposes."""
    registry, settled = _registry(), CollectorRegistry()
    arms = [(f"s{n}", arm) for n in range(series) for arm in ("tracked", "control")]
    metrics = ProcessMetrics(registry, settled=settled, arms=arms)
    settled.register(SnapshotCollector(lambda: current.snapshot))
    return Exposition(live=registry, settled=settled, state=lambda: (current.snapshot, metrics.calls_counted))


def _unkept(registry: CollectorRegistry) -> Exposition:
    return Exposition(live=registry, settled=CollectorRegistry(), state=lambda: None)


def gauges_like(text: str) -> CollectorRegistry:
    """Return a registry of gauges with the names, labels and values of the samples of canaryd in an exposition."""
    registry, gauges = _registry(), dict[str, Gauge]()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    for sample in samples:
        if sample.name.startswith("canaryd_"):
            if sample.name not in gauges:
                gauges[sample.name] = Gauge(sample.name, "As canaryd has it.", list(sample.labels), registry=registry)
            gauge = gauges[sample.name]
            (gauge.labels(**sample.labels) if sample.labels else gauge).set(sample.value)
    return registry


def _registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


@contextmanager
def serving(exposition: Exposition) -> Iterator[Scrape]:
    """Yield a function that scrapes an exposition through canaryd's web server, over one kept connection."""
    views = Views(exposition, why_unhealthy=lambda: None, why_unready=lambda: None, reports={}, facts=dict)
    server = WebServer(views, listen=Listen(("127.0.0.1:0",)), config_file=None, insecure=False)
    server.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.ports[0])

    def scrape() -> str:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()

    try:
        yield scrape
    finally:
        connection.close()
        server.stop()


def samples_in(text: str) -> int:
    """Return how many samples an exposition holds."""
    return sum(not line.startswith("#") for line in text.splitlines())


def ratio(ours: Scrape, peer: Scrape, *, pairs: int, before: Callable[[], None] = lambda: None) -> float:
    """Return the median over interleaved pairs of our processor seconds, server and client, by the peer's.

    `before` goes ahead of each of ours.
    """
    ours(), peer()
    ratios = []
    for _ in range(pairs):
        before()
        began_s = time.process_time()
        ours()
        middle_s = time.process_time()
        peer()
        ratios.append((middle_s - began_s) / (time.process_time() - middle_s))
    return statistics.median(ratios)
