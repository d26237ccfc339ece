"""What a child does beside the runs, one function each: regrading, telling the webhook, copying the store."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import structlog

from canaryd.config import Config
from canaryd.daemon.worker import Order
from canaryd.errors import EXIT_CRASH, CanarydError

ERRANDS = frozenset({"regrade", "tell", "copy"})
Report: TypeAlias = Callable[[Mapping[str, Any]], None]
#: What a child ends with where the receiver did not take a message; the wait before the next try depends on it.
NOT_TAKEN = 1


def run_errand(order: Order, config: Config, *, report: Report) -> int:
    """Do what an order says and return the exit code; what refuses it becomes a log line."""
    try:
        match order.work:
            case "tell":
                return _tell(config, order.series, report=report)
            case "copy":
                return _copy(config, report=report)
            case _:
                return _regrade(config, order.series)
    except (CanarydError, OSError) as error:
        structlog.get_logger("canaryd.child").warning("errand failed", work=order.work, reason=str(error))
        return error.exit_code if isinstance(error, CanarydError) else EXIT_CRASH


def _regrade(config: Config, series: str) -> int:
    """Grade the stored replies of a series again; what differs is in the store, and in the metrics from there."""
    from canaryd import sandbox
    from canaryd.regrade.replies import Bench, regrade
    from canaryd.runner.clock import clock_of
    from canaryd.store.engine import open_store

    bench = Bench(sandbox.default(), random.SystemRandom())
    with open_store(config.store_url) as store:
        done = regrade(store, series, since=None, now=clock_of(config).now(), bench=bench)
    log = structlog.get_logger("canaryd.child").bind(series=series)
    say = log.warning if done.differences else log.info
    say("regraded", replies=done.replies, differing=len(done.differences), ungraded=done.ungraded)
    return 0


def _tell(config: Config, series: str, *, report: Report) -> int:
    """Post the messages that a series owes to the webhook."""
    from canaryd.runner.clock import clock_of
    from canaryd.store.engine import open_store
    from canaryd.webhook.deliver import deliver, receiver_of

    log = structlog.get_logger("canaryd.child").bind(series=series)
    try:
        receiver = receiver_of(config)
    except CanarydError as error:
        report({"event": "message", "notice": None, "failed": str(error)})
        raise
    with open_store(config.store_url) as store:
        for told in deliver(store, series, receiver=receiver, now=clock_of(config).now()):
            notice = told.notice
            if told.outcome != "silenced":
                report({"event": "message", "notice": notice.id, "failed": told.failed})
            if told.outcome == "failed":
                log.warning("webhook message not taken", notice=notice.id, state=notice.state, reason=told.failed)
                return NOT_TAKEN
            log.info("webhook message", notice=notice.id, state=notice.state, outcome=told.outcome)
    return 0


def _copy(config: Config, *, report: Report) -> int:
    """Copy the whole store."""
    from canaryd.daemon.copies import BACKUP, make_copy

    try:
        made = make_copy(config)
    except (CanarydError, OSError) as error:
        report({"event": "copy", "table": BACKUP, "failed": str(error)})
        raise
    report({"event": "copy", "table": BACKUP, "failed": None})
    structlog.get_logger("canaryd.child").info("store copied", copy=str(made), bytes=made.stat().st_size)
    return 0
