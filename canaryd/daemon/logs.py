"""Structured logs on stderr: JSON, with journald's priorities where the journal reads it, and no secret in any line."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from canaryd.providers.secret import Secret, redact

LEVELS = ("critical", "error", "warning", "info", "debug")
_PRIORITIES = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
_SECRET_FIELD = ("key", "token", "secret", "authorization", "password", "cookie")
#: Their DEBUG lines print whole requests, and so items of the panel.
_TALKATIVE = ("anthropic", "apscheduler", "botocore", "httpcore", "httpx", "httpx2", "openai", "sqlalchemy", "urllib3")

Event = MutableMapping[str, Any]


def configure_logs(
    level: str, *, count: Callable[[str], None], secrets: Sequence[Secret] = (), stream: TextIO | None = None
) -> None:
    """Send every log line of this process, the libraries' too, to `stream` (stderr); `count` gets each line's level.

    No line holds a value of `secrets`, nor what looks like a key. A terminal gets lines for a person, anything else one JSON object a line. Under journald each begins with the
    priority, as in `<4>{"event": ...}`.
    """
    out = stream or sys.stderr
    shared: Sequence[Any] = (
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
        _counted(count),
        without_secrets(secrets),
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    last = structlog.dev.ConsoleRenderer() if out.isatty() else _as_json(journal=is_journal(out, os.environ))
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last], foreign_pre_chain=shared
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


def without_secrets(secrets: Sequence[Secret]) -> Callable[[Any, str, Event], Event]:
    """Return the processor that redacts every value: by its field's name, by value, and by what a key looks like."""

    def processor(_logger: Any, _method: str, event: Event) -> Event:
        return {name: _clean(name, value, secrets=secrets) for name, value in event.items()}

    return processor


def _clean(name: str, value: Any, *, secrets: Sequence[Secret]) -> Any:
    if name.startswith("_"):  # structlog's own
        return value
    if any(part in name.lower() for part in _SECRET_FIELD) and not isinstance(value, int | float):
        return "***"
    if isinstance(value, Mapping):
        return {str(key): _clean(str(key), each, secrets=secrets) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(name, each, secrets=secrets) for each in value]
    return value if value is None or isinstance(value, bool | int | float) else redact(str(value), secrets=secrets)


def _counted(count: Callable[[str], None]) -> Callable[[Any, str, Event], Event]:
    def processor(_logger: Any, _method: str, event: Event) -> Event:
        count(str(event.get("level", "info")))
        return event

    return processor


def _as_json(*, journal: bool) -> Callable[[Any, str, Event], str]:
    render = structlog.processors.JSONRenderer(sort_keys=False)

    def processor(logger: Any, method: str, event: Event) -> str:
        prefix = f"<{_PRIORITIES.get(str(event.get('level')), 6)}>" if journal else ""
        return f"{prefix}{render(logger, method, event)!s}"

    return processor


def is_journal(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Return whether a stream goes to journald: $JOURNAL_STREAM names its device and inode."""
    named = env.get("JOURNAL_STREAM")
    if not named:
        return False
    try:
        file = os.fstat(stream.fileno())
    except OSError:
        return False
    return named == f"{file.st_dev}:{file.st_ino}"
