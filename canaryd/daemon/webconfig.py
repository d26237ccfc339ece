"""The `--web.config.file`: TLS and basic auth in the format of Prometheus' exporter-toolkit, a subset of it."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from canaryd.errors import ConfigError
from canaryd.files import read_text

_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_TLS_KEYS = ("cert_file", "key_file", "client_ca_file", "client_auth_type", "min_version")


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate of the server, and what is asked of clients."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client_auth_type: str = "NoClientCert"
    min_version: str = "TLS12"

    def context(self) -> ssl.SSLContext:
        """Return the server's TLS settings.

        Raises:
            ConfigError: a file cannot be read, or is no certificate or key.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[self.min_version]
        context.verify_mode = _CLIENT_AUTH[self.client_auth_type]
        try:
            context.load_cert_chain(self.cert_file, self.key_file)
        except OSError as error:  # SSLError is one
            raise ConfigError(
                f"{self.cert_file}: certificate and key cannot be loaded ({error.strerror or error}); check both files"
            ) from None
        if self.client_ca_file is not None:
            try:
                context.load_verify_locations(self.client_ca_file)
            except OSError as error:
                raise ConfigError(
                    f"{self.client_ca_file}: holds no certificates to verify clients by ({error.strerror or error}); "
                    "check the file"
                ) from None
        return context


@dataclass(frozen=True, slots=True)
class WebConfig:
    """Who may connect, and how; `users` maps names to bcrypt hashes, empty where everyone may."""

    tls: Tls | None = None
    users: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it names."""
        if self.tls is None:
            return ()
        own = (self.tls.cert_file, self.tls.key_file)
        return own if self.tls.client_ca_file is None else (*own, self.tls.client_ca_file)


def load_web_config(path: Path) -> WebConfig:
    """Return the web configuration in a file; see `parse_web_config`."""
    return parse_web_config(read_text(path), path=path)


def parse_web_config(text: str, *, path: Path) -> WebConfig:
    """Return the web configuration of a YAML text; its relative paths are taken from the folder of `path`.

    Raises:
        ConfigError: it is no YAML, or a key is unknown, missing or has a value that is not allowed.
    """
    import yaml

    try:
        content, lines = yaml.safe_load(text), _lines(yaml.compose(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, ValueError) as error:  # a ValueError is what it makes of the 99th of a month
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        place = path.name if mark is None else f"{path.name}:{mark.line + 1}"
        raise ConfigError(f"{place}: is not YAML; write it as the exporter-toolkit documents") from None
    source = _Source(path.resolve(), lines)
    root = _mapping(content if content is not None else {}, at=source.at())
    _known(root, ("tls_server_config", "basic_auth_users"), source=source)
    tls = root.get("tls_server_config")
    users = _mapping(root.get("basic_auth_users") or {}, at=source.at("basic_auth_users"))
    for user, hashed in users.items():
        if not (isinstance(hashed, str) and _BCRYPT.fullmatch(hashed)):
            raise ConfigError(
                f"{source.at(f'basic_auth_users.{user}')} is no bcrypt hash; make one with `htpasswd -nBC 10 {user}`"
            )
    return WebConfig(
        tls=None if tls is None else _tls(_mapping(tls, at=source.at("tls_server_config")), source=source),
        users={str(user): hashed for user, hashed in users.items()},
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """The file, and the line of each of its keys, which are named as `table.key`."""

    path: Path
    lines: Mapping[str, int]

    def at(self, key: str = "") -> str:
        """Return the place of a key, for a person; the file alone where it has none."""
        line = self.lines.get(key)
        place = self.path.name if line is None else f"{self.path.name}:{line}"
        return f"{place}: {key}" if key else place


def _lines(root: Any) -> dict[str, int]:
    """Return the lines of the tables and their keys; what lies deeper is refused in any case."""
    found: dict[str, int] = {}
    for key, table in _pairs(root):
        found[key.value] = key.start_mark.line + 1
        found |= {f"{key.value}.{inner.value}": inner.start_mark.line + 1 for inner, _ in _pairs(table)}
    return found


def _pairs(node: Any) -> list[tuple[Any, Any]]:
    from yaml import MappingNode

    return node.value if isinstance(node, MappingNode) else []


def _tls(table: Mapping[str, Any], *, source: _Source) -> Tls:
    where = "tls_server_config"
    _known(table, _TLS_KEYS, source=source, within=f"{where}.")
    for key in ("cert_file", "key_file"):
        if not isinstance(table.get(key), str):
            raise ConfigError(f"{source.at(where)}.{key} is missing; TLS takes cert_file and key_file")
    auth, version = table.get("client_auth_type", "NoClientCert"), table.get("min_version", "TLS12")
    for key, value, allowed in (("client_auth_type", auth, _CLIENT_AUTH), ("min_version", version, _VERSIONS)):
        if not isinstance(value, str) or value not in allowed:
            raise ConfigError(f"{source.at(f'{where}.{key}')} is {value!r}, but must be one of {', '.join(allowed)}")
    ca_file = table.get("client_ca_file")
    if auth != "NoClientCert" and ca_file is None:
        raise ConfigError(f"{source.at(where)}.client_ca_file is missing; {auth} verifies clients against it")
    folder = source.path.parent
    return Tls(
        cert_file=folder / table["cert_file"],
        key_file=folder / table["key_file"],
        client_ca_file=None if ca_file is None else folder / str(ca_file),
        client_auth_type=auth,
        min_version=version,
    )


def _mapping(value: Any, *, at: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{at} is {type(value).__name__}, but must be a mapping of keys to values")
    return value


def _known(table: Mapping[str, Any], allowed: tuple[str, ...], *, source: _Source, within: str = "") -> None:
    for key in table:
        if key not in allowed:
            raise ConfigError(f"{source.at(f'{within}{key}')} is unknown; canaryd knows {', '.join(allowed)}")
