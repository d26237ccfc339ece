"""Structured logs on stderr: JSON, with journald's priorities where the journal reads it, and no secret in any line."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from canaryd.colours import has_colours
from canaryd.providers.secret import Secret, redact

LEVELS = ("critical", "error", "warning", "info", "debug")
_PRIORITIES = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
_SECRET_FIELD = ("key", "token", "secret", "authorization", "password", "cookie")

Event = MutableMapping[str, Any]


def configure_logs(
    level: str, *, count: Callable[[str], None], secrets: Sequence[Secret] = (), stream: TextIO | None = None
) -> None:
    """Send every log line of this process, the libraries' too, to `stream` (stderr); `count` gets each line's level.

    No line holds a value of `secrets`, nor what looks like a key. A terminal gets lines for a person, anything else one
    JSON object a line; under journald each begins with its priority, as in `<4>{"event": ...}`.
    """
    out = stream or sys.stderr
    shared: Sequence[Any] = (
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
        Counted(count),
        WithoutSecrets(secrets),
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
    last = (
        structlog.dev.ConsoleRenderer(colors=has_colours(out, os.environ))
        if out.isatty()
        else AsJson(journal=is_journal(out, os.environ))
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last], foreign_pre_chain=shared
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)


def set_level(level: str) -> None:
    """Log lines of this level and above from now on.

    Libraries stay at warnings, whatever the level: a provider's SDK prints whole requests, and so items of the panel.
    """
    own = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger().setLevel(max(own, logging.WARNING))
    logging.getLogger("canaryd").setLevel(own)


class WithoutSecrets:
    """The processor that redacts every value: by its field's name, by value, and by what a key looks like."""

    def __init__(self, secrets: Sequence[Secret]) -> None:
        self._secrets = secrets

    def __call__(self, _logger: Any, _method: str, event: Event) -> Event:
        """Return the event without secrets."""
        return {name: self._clean(name, value) for name, value in event.items()}

    def _clean(self, name: str, value: Any) -> Any:
        if name.startswith("_"):  # structlog's own
            return value
        if any(part in name.lower() for part in _SECRET_FIELD) and not isinstance(value, int | float):
            return "***"
        if isinstance(value, Mapping):
            return {str(key): self._clean(str(key), each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean(name, each) for each in value]
        is_plain = value is None or isinstance(value, bool | int | float)
        return value if is_plain else redact(str(value), secrets=self._secrets)


class Counted:
    """The processor that gives each line's level to a counter."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count

    def __call__(self, _logger: Any, _method: str, event: Event) -> Event:
        """Count the line and return it."""
        self._count(str(event.get("level", "info")))
        return event


class AsJson:
    """The last processor: one JSON object, behind its priority where the journal reads it."""

    def __init__(self, *, journal: bool) -> None:
        self._journal = journal
        self._render = structlog.processors.JSONRenderer(sort_keys=False)

    def __call__(self, logger: Any, method: str, event: Event) -> str:
        """Return the line."""
        prefix = f"<{_PRIORITIES.get(str(event.get('level')), 6)}>" if self._journal else ""
        return f"{prefix}{self._render(logger, method, event)!s}"


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
