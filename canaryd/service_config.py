"""What the resident process does beside measuring, as configured: where it serves, whom it tells, what it copies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast
from urllib.parse import urlsplit

from canaryd.errors import ConfigError
from canaryd.tables import Table

DEFAULT_ADDRESS = "127.0.0.1:10877"
DEFAULT_LOG_LEVEL = "info"
LOG_LEVELS = ("debug", "info", "warning", "error")
DEFAULT_RUNBOOKS = "https://example.org/canaryd/runbooks"
WebhookFormat = Literal["slack", "generic"]


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where each transition of an alarm state is posted; the URL is a key, so only its credential's name stands here.

    `runbooks` is where the pages of the alerts are found, without the slash at its end.
    """

    credential: str
    format: WebhookFormat
    runbooks: str


@dataclass(frozen=True, slots=True)
class Backup:
    """Where the daily copies of the store go, and how many of them are kept."""

    folder: Path
    keep: int


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """The tables [daemon], [webhook], [backup] and [export]; None is what the daemon does not do."""

    listen: str = DEFAULT_ADDRESS
    log_level: str = DEFAULT_LOG_LEVEL
    webhook: Webhook | None = None
    backup: Backup | None = None
    export: Path | None = None


def parse_service(root: Table, *, folder: Path) -> ServiceConfig:
    """Return what a configuration says of the resident process; relative paths are taken from `folder`.

    Raises:
        ConfigError: a key is unknown, missing, of the wrong type or out of range.
    """
    daemon = root.table("daemon")
    listen = daemon.take("listen", str, default=DEFAULT_ADDRESS)
    log_level = daemon.take("log_level", str, default=DEFAULT_LOG_LEVEL, check=_level)
    daemon.done()
    return ServiceConfig(
        listen=listen,
        log_level=log_level,
        webhook=_webhook(root.table("webhook")) if "webhook" in root else None,
        backup=_backup(root.table("backup"), folder=folder) if "backup" in root else None,
        export=_export(root.table("export"), folder=folder) if "export" in root else None,
    )


def _webhook(table: Table) -> Webhook:
    if "url" in table:
        # The value is not repeated.
        raise ConfigError(
            f"{table.where('url')} is a key, since whoever knows it can write there; put it in a file, say "
            'credential = "NAME" here and NAME_file = "PATH" in [credentials], or pass it as a systemd credential'
        )
    webhook = Webhook(
        credential=table.take("credential", str),
        format=cast("WebhookFormat", table.take("format", str, default="slack", check=_format)),
        runbooks=table.take("runbooks", str, default=DEFAULT_RUNBOOKS, check=_page).rstrip("/"),
    )
    table.done()
    return webhook


def _backup(table: Table, *, folder: Path) -> Backup:
    backup = Backup(folder / table.take("folder", str), table.take("keep", int, default=7, check=_copies))
    table.done()
    return backup


def _export(table: Table, *, folder: Path) -> Path:
    file = folder / table.take("file", str)
    table.done()
    return file


def _level(value: str) -> str | None:
    return None if value in LOG_LEVELS else f"must be one of {', '.join(LOG_LEVELS)}"


def _format(value: str) -> str | None:
    return None if value in ("slack", "generic") else "must be slack or generic"


def _page(value: str) -> str | None:
    parts = urlsplit(value)
    return None if parts.scheme in ("http", "https") and parts.netloc else "must be the http(s) address of the runbooks"


def _copies(value: int) -> str | None:
    return None if 1 <= value <= 1000 else "must be between 1 and 1000"
