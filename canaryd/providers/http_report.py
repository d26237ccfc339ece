"""The configuration that an application reports with its answer: checked, never trusted or repaired (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from canaryd.errors import ConfigError
from canaryd.providers.base import ProviderError
from canaryd.providers.wire import Redactor
from canaryd.records import JsonValue
from canaryd.target_config import checked, compare


def checked_report(reported: Any, *, withheld: bool, redactor: Redactor) -> dict[str, JsonValue]:
    """Return the configuration that was reported, in the form that is recorded (null was not sent, base_url reduced).

    Raises:
        ProviderError: kind `config_mismatch`: there is none, a key is not in the closed table, a value is no scalar or
            looks like a key, or provider and model are not both named.
    """
    if not isinstance(reported, dict) or not reported:
        raise ProviderError("config_mismatch", "the answer carries no configuration")
    for key, value in reported.items():
        if isinstance(value, str) and redactor(value) != " ".join(value.split()):
            detail = f"the answer reports {key!r} with what looks like a key, or is no short text"
            raise ProviderError("config_mismatch", redactor(detail))
    try:
        return checked(reported, withheld=withheld)
    except (ConfigError, ValueError) as error:
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
