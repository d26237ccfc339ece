"""Starting and ending the resident process: scheduler, web server, signals and the service manager around a Service."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog
from apscheduler.events import EVENT_JOB_ERROR
from apscheduler.schedulers.background import BackgroundScheduler
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from canaryd.daemon.desk import Loaded
from canaryd.daemon.logs import configure_logs
from canaryd.daemon.memory import close_memory
from canaryd.daemon.notify import Notifier
from canaryd.daemon.pages import page_files
from canaryd.daemon.reload import load
from canaryd.daemon.service import Service, tick_s
from canaryd.daemon.signals import Signals
from canaryd.daemon.web import Listen, Views, WebServer
from canaryd.daemon.writes import count_writes
from canaryd.metrics.collector import ProcessMetrics, SnapshotCollector
from canaryd.metrics.exposition import Exposition
from canaryd.tables import parse_table


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says about the resident process; the configuration says `listen` and `log_level` else."""

    config_path: Path
    listen: tuple[str, ...]
    web_config: Path | None
    insecure_listen: bool
    log_level: str | None


def run_daemon(options: Options, *, signals: Signals) -> None:
    """Run until the signals ask to stop; to reload is to read the configuration and the web configuration again.

    Raises:
        ConfigError: the configuration or the web configuration cannot be used, or an address faces others without TLS.
        UsageError: an address of the command line is none.
        NotListening: an address is taken.
        StoreUnavailable: the store is missing, or its schema is not current.
    """
    close_memory()
    registry, settled = CollectorRegistry(), CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    notifier = Notifier(os.environ, pid=os.getpid())
    loaded = load(options.config_path, log_level=options.log_level)
    arms = [(series.name, arm.name) for series in loaded.config.series for arm in series.asked]
    metrics = ProcessMetrics(registry, settled=settled, arms=arms)
    configure_logs(loaded.level, count=lambda level: metrics.log_messages.labels(level).inc())
    service = Service(loaded, metrics=metrics, notifier=notifier)
    settled.register(SnapshotCollector(lambda: service.snapshot))
    count_writes(service.count_write)
    service.open()
    exposition = Exposition(live=registry, settled=settled, state=lambda: (service.snapshot, metrics.calls_counted))
    reports = page_files(loaded.config, env=os.environ)
    views = Views(exposition, service.why_unhealthy, service.why_unready, reports, service.facts)
    listen = Listen(options.listen) if options.listen else _configured(loaded)
    server = WebServer(
        views,
        listen=listen,
        config_file=options.web_config,
        insecure=options.insecure_listen,
        on_web_config=service.show_web_config,
    )
    scheduler = ticking(service.tick, every_s=tick_s(loaded.config, notifier.watchdog_s))
    log = structlog.get_logger("canaryd.daemon")
    server.start()
    scheduler.start()
    notifier.ready()
    log.info("ready", listen=[f"port {port}" for port in server.ports], store=loaded.config.store_url)
    service.warn_of_keys()
    while signals.wait() != "stop":
        service.reload(reload_web=server.reload)
    log.info("stopping", again="a second signal ends it at once, without the calls in flight")
    scheduler.shutdown(wait=False)
    service.stop()
    server.stop()
    log.info("stopped")


def _configured(loaded: Loaded) -> Listen:
    """Return where the configuration says to serve, with its line."""
    table = parse_table(loaded.text, source=loaded.config.path.name).table("daemon")
    return Listen((loaded.config.service.listen,), table.where("listen"))


def ticking(tick: Callable[[], None], *, every_s: float) -> BackgroundScheduler:
    """Return a scheduler that ticks at once and then every so many seconds, never twice at a time.

    It never skips a late tick: what is due is decided by the store and the clock, not by the scheduler. A tick that
    fails unexpectedly is logged, and the next one comes.
    """
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_job(
        tick, "interval", seconds=every_s, misfire_grace_time=None, coalesce=True, max_instances=1, next_run_time=_now()
    )
    log = logging.getLogger("canaryd.scheduler")
    scheduler.add_listener(lambda event: log.critical("tick crashed: %s", event.exception), EVENT_JOB_ERROR)
    return scheduler


def _now() -> datetime:
    return datetime.now(UTC)
