"""The child process: a slot measured, windows decided or an errand done; heavy imports and crashes stay in here.

It reads its order from stdin and dies when stdin ends, reports signs of life on stdout, and logs on stderr. What it
measures reaches its parent through the store alone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from canaryd.config import Config, SeriesConfig, parse
from canaryd.daemon import heartbeat
from canaryd.daemon.copies import EXPORT, export_copy
from canaryd.daemon.counting import counted_calls
from canaryd.daemon.errands import ERRANDS, Report, run_errand
from canaryd.daemon.logs import configure_logs
from canaryd.daemon.memory import close_memory
from canaryd.daemon.pages import page_files, write_page
from canaryd.daemon.sandboxes import counted_programs
from canaryd.daemon.worker import Order
from canaryd.daemon.writes import count_writes
from canaryd.errors import EXIT_CRASH, CanarydError, CredentialsError, Locked
from canaryd.providers.credentials import find_secret
from canaryd.providers.secret import Secret
from canaryd.runner import programs
from canaryd.runner.calls import Drain, Drained, call, drain

_STDIN = 0


def main() -> int:
    """Obey the order on stdin; return the exit code of the contract."""
    order = Order.from_line(_order_line())
    close_memory()  # not before its parent has seen when it began, to hand the lease over to it
    report = _reporter()
    config = parse(order.config_text, path=Path(order.config_path))
    configure_logs(
        order.log_level, count=lambda level: report({"event": "log", "level": level}), secrets=_secrets(config)
    )
    sys.excepthook = _log_crash
    threading.Thread(target=_die_with_parent, name="parent-watch", daemon=True).start()
    told = Drain()
    call.set(counted_calls(report))
    drain.set(told)
    signal.signal(signal.SIGTERM, lambda _number, _frame: told.tell())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    count_writes(report)
    report({"event": "started"})
    programs.execute.set(counted_programs(report))
    if order.work in ERRANDS:
        return run_errand(order, config, report=report)
    code = obey(order, config=config, series=config.one_series(order.series))
    if code not in {Drained.exit_code, Locked.exit_code}:
        _publish(config, order.series, report=report)
    return code


def _order_line() -> bytes:
    """Return the first line of stdin, read without a buffer that another thread would have to share."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(_STDIN, 65536)
        if not part:
            sys.exit(EXIT_CRASH)
        line += part
    return line


def obey(order: Order, *, config: Config, series: SeriesConfig) -> int:
    """Do the work of an order; what refuses it becomes a row, a log line and an exit code."""
    from canaryd.daily import decide_due, measure_slot

    log = structlog.get_logger("canaryd.child").bind(series=order.series)
    if order.work == "measure":
        heartbeat.send(series.heartbeat_url, "start")
    try:
        if order.work == "decide":
            verdicts = decide_due(config, order.series)
        else:
            day = measure_slot(config, series, slot_date=order.date)
            verdicts = day.verdicts
            for arm, end in ((run.start.arm, run.end) for run in day.runs if run.end is not None):
                say = log.info if end.outcome == "completed" else log.warning
                say("run ended", arm=arm, outcome=end.outcome, reason=end.reason)
            for arm, reason in day.set_aside.items():
                log.warning("set aside", arm=arm, reason=reason)
            heartbeat.send(series.heartbeat_url, "success" if day.succeeded else "fail")
    except Drained as told:
        log.info("told to end", slot=order.slot_date, reason=str(told))
        return told.exit_code
    except CanarydError as error:
        log.warning("not measured", work=order.work, slot=order.slot_date, reason=str(error))
        if order.work == "measure" and not isinstance(error, Locked):
            heartbeat.send(series.heartbeat_url, "fail")
        return error.exit_code
    for verdict in verdicts:
        log.info(
            "decided",
            window=verdict.window_index,
            verdict=verdict.kind,
            direction=verdict.direction,
            attribution=verdict.attribution,
            reasons=list(verdict.reasons),
        )
    return 0


def _publish(config: Config, series: str, *, report: Report) -> None:
    """Write the page of the report and the copy for readers anew; the day is stored, so a failure fails nothing."""
    log = structlog.get_logger("canaryd.child").bind(series=series)
    try:
        write_page(config, series, file=page_files(config, env=os.environ)[series])
    except (CanarydError, OSError) as error:
        log.warning("report not written", reason=str(error))
    try:
        export_copy(config)
    except (CanarydError, OSError) as error:
        log.warning("copy for readers not written", reason=str(error))
        report({"event": "copy", "table": EXPORT, "failed": str(error)})
    else:
        report({"event": "copy", "table": EXPORT, "failed": None})


def _reporter() -> Report:
    """Return the way to the parent, without whom the child ends; whatever else prints on stdout lands on stderr."""
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lock = threading.Lock()

    def report(event: Mapping[str, Any]) -> None:
        with lock:
            try:
                pipe.write(json.dumps(event) + "\n")
            except BrokenPipeError:
                os._exit(EXIT_CRASH)

    return report


def _die_with_parent() -> None:
    while os.read(_STDIN, 4096):
        continue
    os._exit(EXIT_CRASH)


def _log_crash(*error: Any) -> None:
    structlog.get_logger("canaryd.child").critical("crashed", exc_info=error)
    os._exit(EXIT_CRASH)


def _secrets(config: Config) -> list[Secret]:
    webhook = config.service.webhook
    names = {arm.credential for series in config.series for arm in series.asked if arm.credential is not None}
    found = []
    for name in sorted(names | ({webhook.credential} if webhook else set())):
        try:
            found.append(find_secret(name, config.credentials, env=os.environ))
        except CredentialsError:  # whoever needs it will say so
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
