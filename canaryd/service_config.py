"""What the resident process does beside measuring, as configured: where it serves, whom it tells, what it copies."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Literal, NamedTuple, cast
from urllib.parse import urlsplit

from canaryd import checks
from canaryd.errors import ConfigError
from canaryd.tables import Table

DEFAULT_ADDRESS = "127.0.0.1:10877"
DEFAULT_LOG_LEVEL = "info"
LOG_LEVELS = ("debug", "info", "warning", "error")
_LAST_PORT = 65535
DEFAULT_RUNBOOKS = "https://example.org/canaryd/runbooks"
WebhookFormat = Literal["slack", "generic"]


class Address(NamedTuple):
    """An address to serve at."""

    ip: IPv4Address | IPv6Address
    port: int


def address_of(text: str) -> Address | None:
    """Return the address that IP:PORT or localhost:PORT says, None where it says none.

    >>> address_of("localhost:10877"), address_of("[::1]:99999"), address_of("10877")
    (Address(ip=IPv4Address('127.0.0.1'), port=10877), None, None)
    """
    host, _, port = text.rpartition(":")
    try:
        ip = ip_address("127.0.0.1" if host == "localhost" else host.strip("[]"))
    except ValueError:
        return None
    return Address(ip, int(port)) if port.isdecimal() and int(port) <= _LAST_PORT else None


def listen_problem(text: str) -> str | None:
    """Return why a text is no address to listen at, None where it is one."""
    return None if address_of(text) else f"must be IP:PORT with a port up to {_LAST_PORT}, such as {DEFAULT_ADDRESS}"


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


def parse_service(root: Table, *, folder: Path, store_url: str) -> ServiceConfig:
    """Return what a configuration says of the resident process; relative paths are taken from `folder`.

    `store_url` is that of the store, which no copy may replace.

    Raises:
        ConfigError: a key is unknown, missing, of the wrong type or out of range.
    """
    daemon = root.table("daemon")
    listen = daemon.take("listen", str, default=DEFAULT_ADDRESS, check=listen_problem)
    log_level = daemon.take("log_level", str, default=DEFAULT_LOG_LEVEL, check=_level)
    daemon.done()
    webhook, backup, export = (root.optional_table(name) for name in ("webhook", "backup", "export"))
    return ServiceConfig(
        listen=listen,
        log_level=log_level,
        webhook=_webhook(webhook) if webhook else None,
        backup=_backup(backup, folder=folder) if backup else None,
        export=_export(export, folder=folder, store_url=store_url) if export else None,
    )


def _webhook(table: Table) -> Webhook:
    if "url" in table:
        # The value is not repeated.
        raise ConfigError(
            f"{table.where('url')} is a key, since whoever knows it can write there; put it in a file, say "
            'credential = "NAME" here and NAME_file = "PATH" in [credentials], or pass it as a systemd credential'
        )
    webhook = Webhook(
        credential=table.take("credential", str, check=checks.name),
        format=cast("WebhookFormat", table.take("format", str, default="slack", check=_format)),
        runbooks=table.take("runbooks", str, default=DEFAULT_RUNBOOKS, check=_page).rstrip("/"),
    )
    table.done()
    return webhook


def _backup(table: Table, *, folder: Path) -> Backup:
    copies = table.take("folder", str, check=checks.filled)
    backup = Backup(folder / copies, table.take("keep", int, default=7, check=_copies))
    table.done()
    return backup


def _export(table: Table, *, folder: Path, store_url: str) -> Path:
    file, line = folder / table.take("file", str, check=_file), table.where("file")
    if store_url.startswith("sqlite:///") and file.resolve() == Path(store_url.removeprefix("sqlite:///")).resolve():
        raise ConfigError(f"{line} is the store itself, which its copy would replace; name another file")
    table.done()
    return file


def _file(value: str) -> str | None:
    is_file = value.strip() and not value.endswith("/") and Path(value).name not in ("", "..")
    return None if is_file else "must be the path of a file"


def _level(value: str) -> str | None:
    return None if value in LOG_LEVELS else f"must be one of {', '.join(LOG_LEVELS)}"


def _format(value: str) -> str | None:
    return None if value in ("slack", "generic") else "must be slack or generic"


def _page(value: str) -> str | None:
    parts = urlsplit(value)
    return None if parts.scheme in ("http", "https") and parts.netloc else "must be the http(s) address of the runbooks"


def _copies(value: int) -> str | None:
    return None if 1 <= value <= 1000 else "must be between 1 and 1000"
