"""The recorded configuration of the system under test: a closed table of scalars, and what differs between two.

An absent key was not sent. A record without provider and model does not exist; no record at all is unknown in every
field and differs from nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from canaryd.delta import WITHHELD, Delta
from canaryd.errors import ConfigError
from canaryd.records import Arm, JsonValue

KEYS = (
    "provider",
    "model",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "effort",
    "region",
    "base_url",
    "response_format",
    "json_mode",
)
NOT_SENT = "not sent"


def recorded(arm: Arm) -> dict[str, JsonValue]:
    """Return what is recorded of an arm; a listed parameter in the SDK's extra body stands under its listed name.

    >>> arm = Arm("t", "tracked", "openai", "m", base_url="https://h/v1", params={"temperature": 0.5},
    ...           options={"extra_body": {"top_k": 3, "cache": False}})
    >>> recorded(arm)
    {'provider': 'openai', 'model': 'm', 'temperature': 0.5, 'top_k': 3, 'base_url': 'h:443'}
    """
    extra = arm.options.get("extra_body")
    sent = {**(extra if isinstance(extra, dict) else {}), **arm.options, **arm.params}
    known: dict[str, JsonValue] = {"provider": arm.provider, "model": arm.model}
    if arm.base_url is not None:
        known["base_url"] = arm.base_url
    return checked({**{key: sent[key] for key in KEYS if key in sent}, **known}, withheld=arm.redact)


def checked(record: Mapping[str, JsonValue], *, withheld: bool = False) -> dict[str, JsonValue]:
    """Return a record in the order of the table, reduced: host:port, the response format's type, null as not sent.

    Raises:
        ConfigError: a key is none of the table, a value is no scalar, or provider or model are missing.

    >>> checked({"model": "m", "provider": "p", "json_mode": 1, "seed": None, "response_format": {"type": "json"}})
    {'provider': 'p', 'model': 'm', 'response_format': 'json', 'json_mode': True}
    """
    for key in record:
        if key not in KEYS:
            raise ConfigError(f"configuration.{key} is not recorded; allowed: {', '.join(KEYS)}")
    reduced = {key: _reduced(key, record[key], withheld=withheld) for key in KEYS if record.get(key) is not None}
    if reduced:
        for key in ("provider", "model"):
            if key not in reduced:
                raise ConfigError(f"configuration.{key} is missing; a recorded configuration names provider and model")
    return reduced


def _reduced(key: str, value: JsonValue, *, withheld: bool) -> JsonValue:
    if key == "base_url":
        return WITHHELD if withheld else host_of(str(value))
    if key == "response_format" and isinstance(value, dict):
        value = value.get("type", "unnamed")
    if key == "json_mode":
        return bool(value)
    if isinstance(value, dict | list):
        raise ConfigError(f"configuration.{key} is {json.dumps(value)}, but only a single value can be recorded")
    return value


def compare(before: Mapping[str, JsonValue] | None, after: Mapping[str, JsonValue] | None) -> tuple[Delta, ...]:
    """Return what differs between two records, by name, in the order of the table; unknown differs from nothing.

    >>> [str(delta) for delta in compare({"provider": "p", "model": "a"}, {"provider": "p", "model": "b", "seed": 1})]
    ['model: a -> b', 'seed: not sent -> 1']
    >>> compare(None, {"provider": "p", "model": "b"})
    ()
    """
    if not before or not after:
        return ()
    return tuple(
        Delta(key, _shown(before.get(key)), _shown(after.get(key)))
        for key in KEYS
        if before.get(key) != after.get(key) and WITHHELD not in (before.get(key), after.get(key))
    )


def not_comparable(before: Mapping[str, JsonValue] | None, after: Mapping[str, JsonValue] | None) -> tuple[str, ...]:
    """Return the keys whose values cannot be compared: every one where a record is missing, else the withheld ones.

    >>> not_comparable({"provider": "p", "model": "m", "base_url": "withheld"}, {"provider": "p", "model": "m"})
    ('base_url',)
    """
    if not before or not after:
        return KEYS
    return tuple(key for key in KEYS if WITHHELD in (before.get(key), after.get(key)))


def host_of(url: str) -> str:
    """Return host:port of a URL.

    >>> host_of("https://api.example.com/v1"), host_of("http://127.0.0.1:8080/v1")
    ('api.example.com:443', '127.0.0.1:8080')
    """
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or {'http': 80}.get(parts.scheme, 443)}"


def _shown(value: JsonValue) -> str:
    if value is None:
        return NOT_SENT
    return value if isinstance(value, str) else json.dumps(value)
