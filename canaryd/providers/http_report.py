"""The configuration that an application reports with its answer: checked, never trusted or repaired (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from canaryd.providers.base import ProviderError
from canaryd.providers.wire import Redactor

Scalar: TypeAlias = bool | int | float | str
Report: TypeAlias = Mapping[str, Scalar]

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
_REQUIRED = ("provider", "model")


def checked_report(reported: Any, *, redactor: Redactor) -> Report:
    """Return the configuration that was reported; null means "not sent" and is left out, base_url is host:port.

    Raises:
        ProviderError: kind `config_mismatch`: there is no table, a key is not in the closed table, a value is no scalar
            or looks like a key, or provider and model are not both named.

    >>> checked_report({"provider": "p", "model": "m", "seed": None, "base_url": "http://h:1/v1"}, redactor=str)
    {'provider': 'p', 'model': 'm', 'base_url': 'h:1'}
    """
    if not isinstance(reported, dict):
        raise _refused("the answer carries no configuration")
    report = {}
    for key, value in reported.items():
        if key not in KEYS:
            raise _refused(redactor(f"the answer reports the field {key!r}; allowed: {', '.join(KEYS)}"))
        if value is not None:
            report[key] = _scalar(key, value, redactor=redactor)
    for key in _REQUIRED:
        if not report.get(key):
            raise _refused(f"the answer reports a configuration without {key}")
    return report


def refuse_difference(first: Report, later: Report, *, redactor: Redactor) -> None:
    """Refuse a configuration that is not the run's.

    Raises:
        ProviderError: kind `config_mismatch`, naming every field that differs with both values.
    """
    differing = [key for key in KEYS if _tagged(first.get(key)) != _tagged(later.get(key))]
    if differing:
        named = "; ".join(f"{key}: {_shown(first, key)} -> {_shown(later, key)}" for key in differing)
        raise _refused(redactor(f"the answer reports another configuration than the run's first: {named}"))


def _scalar(key: str, value: Any, *, redactor: Redactor) -> Scalar:
    if key == "response_format" and isinstance(value, dict):
        value = value.get("type")
    if not isinstance(value, (bool, int, float, str)):
        raise _refused(f"the answer reports {key} as {type(value).__name__}, which is no scalar")
    if isinstance(value, str) and redactor(value) != " ".join(value.split()):
        raise _refused(f"the answer reports {key} with something that looks like a key or is no short text")
    return _host_and_port(str(value)) if key == "base_url" else value


def _host_and_port(url: str) -> str:
    return urlsplit(url if "//" in url else f"//{url}").netloc.rpartition("@")[2]


def _tagged(value: Scalar | None) -> tuple[bool, Scalar | None]:
    """Return a value that compares true and 1 as different."""
    return isinstance(value, bool), value


def _shown(report: Report, key: str) -> str:
    return repr(report[key]) if key in report else "not sent"


def _refused(why: str) -> ProviderError:
    return ProviderError("config_mismatch", why)
