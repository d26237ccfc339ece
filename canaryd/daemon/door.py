"""The web configuration in force: who comes in and with which TLS, read again when one of its files changes."""

from __future__ import annotations

import base64
import hashlib
import secrets
import ssl
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import structlog

from canaryd.daemon.webconfig import WebConfig, load_web_config
from canaryd.errors import ConfigError

_REMEMBERED = 256


class Door:
    """Lets requests in by their Authorization header, and knows the TLS settings of the next connection.

    At each connection and request it looks whether the file or one that it names changed. A change that cannot be
    taken over is logged once, and what was in force before stays; `on_change` is told of each whether it was.

    Raises:
        ConfigError: the file cannot be used.
    """

    def __init__(self, path: Path | None, *, on_change: Callable[[bool], None]) -> None:
        self._path, self._on_change = path, on_change
        self._lock = threading.Lock()
        self._seen: dict[Path, int | None] = {}
        self._remembered: dict[bytes, bool] = {}
        self._config, self._context = self._read() if path is not None else (WebConfig(), None)

    def tls(self) -> ssl.SSLContext | None:
        """Return what a listening socket takes once and for all, None where there is no TLS."""
        return None if self._context is None else _TlsInForce(ssl.PROTOCOL_TLS_SERVER, self._current_context)

    def admits(self, authorization: str | None) -> bool:
        """Return whether a request with this header may come in."""
        self._look()
        users = self._config.users
        if not users:
            return True
        credentials = _basic(authorization)
        return credentials is not None and self._knows(credentials, users=users)

    def reload(self) -> None:
        """Read the file and those that it names again, changed or not.

        Raises:
            ConfigError: they cannot be taken over; what was in force before stays.
        """
        with self._lock:
            self._take_over()

    def _current_context(self) -> ssl.SSLContext:
        self._look()
        assert self._context is not None
        return self._context

    def _look(self) -> None:
        with self._lock:
            if all(_mtime(file) == seen for file, seen in self._seen.items()):
                return
            log = structlog.get_logger("canaryd.daemon")
            try:
                self._take_over()
                log.info("web configuration reloaded", config=str(self._path))
            except ConfigError as error:
                log.error("web configuration not reloaded", reason=str(error))

    def _take_over(self) -> None:
        if self._path is None:
            return
        try:
            self._replace()
        except ConfigError:
            self._on_change(False)
            raise
        self._on_change(True)

    def _replace(self) -> None:
        config, context = self._read()
        if (context is None) != (self._context is None):
            raise ConfigError(
                f"{self._path}: tls_server_config was {'added' if self._context is None else 'taken away'}, which a "
                "running daemon does not take over; restart it"
            )
        self._config, self._context = config, context
        self._remembered.clear()

    def _read(self) -> tuple[WebConfig, ssl.SSLContext | None]:
        """Return what the file says; times are noted before reading, so that what changes meanwhile is read again."""
        assert self._path is not None
        self._seen = {file: _mtime(file) for file in (self._path, *self._seen)}
        config = load_web_config(self._path)
        self._seen = {self._path: self._seen[self._path]} | {file: _mtime(file) for file in config.files}
        return config, None if config.tls is None else config.tls.context()

    def _knows(self, credentials: tuple[str, str], *, users: Mapping[str, str]) -> bool:
        import bcrypt

        user, password = credentials
        # An unknown user is checked as slowly as a known one, so that the time does not tell who exists.
        hashed = users.get(user) or _nobody()
        # bcrypt is slow by design, and a scraper comes every half minute with the same password.
        asked = hashlib.sha256("\0".join((user, password, hashed)).encode()).digest()
        known = self._remembered.get(asked)
        if known is None:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            known = bcrypt.checkpw(password.encode()[:72], hashed.encode()) and user in users
            self._remembered[asked] = known
        return known


class _TlsInForce(ssl.SSLContext):
    """Makes each connection with the context that is in force then; a context itself cannot take back what it trusts.

    asyncio asks of a context nothing but `wrap_bio`.
    """

    def __init__(self, _protocol: int, current: Callable[[], ssl.SSLContext]) -> None:
        self._current = current

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Return the TLS object of a new connection."""
        return self._current().wrap_bio(*args, **kwargs)


def _mtime(path: Path) -> int | None:
    """Return when a file was last written, None of one that cannot be seen: reading it says why."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


@cache
def _nobody() -> str:
    import bcrypt

    return bcrypt.hashpw(secrets.token_bytes(32).hex().encode(), bcrypt.gensalt(10)).decode()


def _basic(authorization: str | None) -> tuple[str, str] | None:
    kind, _, encoded = (authorization or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        user, found, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        return None
    return (user, password) if found else None
