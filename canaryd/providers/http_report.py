"""The configuration that an application reports with its answer: checked, never trusted or repaired (pure)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from canaryd.errors import ConfigError
from canaryd.params import PARAMS
from canaryd.providers.base import ProviderError
from canaryd.providers.wire import Redactor, text_at
from canaryd.records import JsonValue
from canaryd.target_config import checked, compare


def checked_report(reported: Any, *, withheld: bool, redactor: Redactor) -> dict[str, JsonValue]:
    """Return the configuration that was reported, in the form that is recorded (null was not sent, base_url reduced).

    Raises:
        ProviderError: kind `config_mismatch`: there is none, a key is not in the closed table, a value is none that its
            field could have or looks like a key, or provider and model are not both named.
    """
    if not isinstance(reported, dict) or not reported:
        raise ProviderError("config_mismatch", "the answer carries no configuration")
    for key, value in reported.items():
        if isinstance(value, str) and redactor(value) != " ".join(value.split()):
            detail = f"the answer reports {key!r} with what looks like a key, or is no short text"
            raise ProviderError("config_mismatch", redactor(detail))
        if value is not None and key in _FIELDS:
            wanted, is_possible = _FIELDS[key]
            if not is_possible(value):
                shown = "" if withheld and key == "base_url" else f" as {json.dumps(value)}"
                detail = f"the answer reports {key}{shown}, but it must be {wanted}"
                raise ProviderError("config_mismatch", redactor(detail))
    try:
        return checked(reported, withheld=withheld)
    except ConfigError as error:
        failure = ProviderError("config_mismatch", redactor(f"the answer reports what cannot be recorded: {error}"))
    raise failure


def refuse_difference(first: Mapping[str, JsonValue], later: Mapping[str, JsonValue], *, redactor: Redactor) -> None:
    """Refuse a configuration that is not the run's.

    Raises:
        ProviderError: kind `config_mismatch`, naming every field that differs with both values.
    """
    deltas = compare(first, later)
    if deltas:
        named = "; ".join(map(str, deltas))
        raise ProviderError(
            "config_mismatch", redactor(f"the answer reports another configuration than the run's first: {named}")
        )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _is_format(value: Any) -> bool:
    return _is_text(value) or text_at(value, "type") is not None


def _is_address(value: Any) -> bool:
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


#: Each field that can be reported, what it must be, and whether a value is that.
_FIELDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **PARAMS,
    "provider": ("a text", _is_text),
    "model": ("a text", _is_text),
    "region": ("a text", _is_text),
    "base_url": ("an address that begins with http:// or https://", _is_address),
    "response_format": ("a text, or an object with its type", _is_format),
}
