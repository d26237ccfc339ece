"""Rendering: a snapshot as metric families, and the counters of the process itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from canaryd.metrics.catalogue import (
    BY_NAME,
    FAILURE_REASONS,
    METRICS,
    PREFIX,
    REQUEST_BUCKETS_S,
    SANDBOX_BUCKETS_S,
    SANDBOX_REASONS,
)
from canaryd.metrics.values import Labels, Snapshot


class SnapshotCollector(Collector):
    """Yields the families of whatever snapshot is current; the database is never touched at a scrape."""

    def __init__(self, current: Callable[[], Snapshot | None]) -> None:
        self._current = current

    def collect(self) -> Iterable[Metric]:
        """Yield one family per metric that the snapshot has values of."""
        snapshot = self._current()
        if snapshot is None:
            return
        for metric in METRICS:
            if metric.source == "store" and metric.name in snapshot.values:
                yield family(metric.name, snapshot.values[metric.name])
        yield family("snapshot_timestamp_seconds", {(): snapshot.taken_s})
        yield family("snapshot_duration_seconds", {(): snapshot.duration_s})

    def describe(self) -> Iterable[Metric]:
        """Yield nothing: what there is depends on the snapshot."""
        return ()


def family(name: str, values: Mapping[Labels, float]) -> Metric:
    """Return a metric of the catalogue with its values."""
    metric = BY_NAME[name]
    make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    made = make(PREFIX + name, metric.text, labels=metric.labels)
    for labels, value in values.items():
        made.add_metric(labels, value)
    return made


class ProcessMetrics:
    """What only the process knows; it starts anew with it, as counters may. Known label values start at 0.

    What counts provider calls is registered with `settled`, because it moves during a run alone; `calls_counted` says
    whether it has moved.
    """

    def __init__(
        self, registry: CollectorRegistry, *, settled: CollectorRegistry, arms: Sequence[tuple[str, str]]
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # the library leaves it untyped
        self.calls_counted = 0
        self._copied_at: Gauge | None = None
        self._registry = settled
        self.requests = self._counter("provider_requests_total")
        self.retries = self._counter("provider_retries_total")
        self.request_failures = self._counter("provider_request_failures_total")
        self.request_seconds = self._histogram("provider_request_duration_seconds", REQUEST_BUCKETS_S)
        self._registry = registry
        self.store_writes = self._counter("store_writes_total")
        self.store_write_failures = self._counter("store_write_failures_total")
        self.log_messages = self._counter("log_messages_total")
        self.clock_jumps = self._counter("clock_jumps_total")
        self.programs = self._counter("sandbox_executions_total")
        self.program_failures = self._counter("sandbox_failures_total")
        self.program_seconds = self._histogram("sandbox_execution_duration_seconds", SANDBOX_BUCKETS_S)
        self.messages = self._counter("webhook_deliveries_total")
        self.message_failures = self._counter("webhook_failures_total")
        self.loaded_config = self._gauge("loaded_config_info")
        self.last_tick = self._gauge("scheduler_last_tick_timestamp_seconds")
        self.store_up = self._gauge("store_up")
        self.schema_current = self._gauge("store_schema_current")
        self.lease_held = self._gauge("lease_held")
        self.reload_successful = self._gauge("config_last_reload_successful")
        self.reloaded_at = self._gauge("config_last_reload_success_timestamp_seconds")
        for series, arm in arms:
            self.requests.labels(series, arm)
            self.retries.labels(series, arm)
            self.request_seconds.labels(series, arm)
            self.lease_held.labels(series)
            for reason in FAILURE_REASONS:
                self.request_failures.labels(series, arm, reason)
        for level in ("critical", "error", "warning", "info", "debug"):
            self.log_messages.labels(level)
        for reason in SANDBOX_REASONS:
            self.program_failures.labels(reason)

    def count_call(self, series: str, event: Mapping[str, Any]) -> None:
        """Count a call to a provider that a child reports."""
        labels = (series, event["arm"])
        self.requests.labels(*labels).inc()
        self.request_seconds.labels(*labels).observe(event["seconds"])
        if event["retry"]:
            self.retries.labels(*labels).inc()
        if event["failure"] is not None:
            self.request_failures.labels(*labels, event["failure"]).inc()
        self.calls_counted += 1  # last: a text rendered meanwhile is then rendered again

    def count_program(self, event: Mapping[str, Any]) -> None:
        """Count a program that a child ran in the sandbox."""
        self.programs.inc()
        self.program_seconds.observe(event["seconds"])
        if event["failure"] is not None:
            self.program_failures.labels(event["failure"]).inc()

    def count_message(self, *, failed: bool) -> None:
        """Count a message that a child posted to the webhook."""
        self.messages.inc()
        if failed:
            self.message_failures.inc()

    def show_copy(self, made_s: float) -> None:
        """Export when the store was last copied; the metric is not there where nothing copies it."""
        if self._copied_at is None:
            self._copied_at = self._gauge("store_backup_last_success_timestamp_seconds")
        self._copied_at.set(made_s)

    def _histogram(self, name: str, buckets: Sequence[float]) -> Histogram:
        metric = BY_NAME[name]
        return Histogram(PREFIX + name, metric.text, metric.labels, buckets=buckets, registry=self._registry)

    def _counter(self, name: str) -> Counter:
        metric = BY_NAME[name]
        return Counter(PREFIX + name, metric.text, metric.labels, registry=self._registry)

    def _gauge(self, name: str) -> Gauge:
        metric = BY_NAME[name]
        return Gauge(PREFIX + name, metric.text, metric.labels, registry=self._registry)
