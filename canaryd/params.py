"""The request parameters of an arm or a judge: their names, and which values could be sent at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from canaryd.records import JsonValue
from canaryd.tables import Table
from canaryd.wording import as_toml

_Check = Callable[[JsonValue], bool]


def _is_number(value: JsonValue, *, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _is_whole(value: JsonValue, *, low: float) -> bool:
    return isinstance(value, int) and _is_number(value, low=low, high=2**53)


#: Each parameter, what it must be, and whether a value is that.
PARAMS: Mapping[str, tuple[str, _Check]] = {
    "max_tokens": ("a whole number from 1 on", lambda value: _is_whole(value, low=1)),
    "temperature": ("a number from 0 on", lambda value: _is_number(value, low=0, high=2**53)),
    "top_p": ("a number between 0 and 1", lambda value: _is_number(value, low=0, high=1)),
    "top_k": ("a whole number from -1 on (some servers take 0 or -1 as off)", lambda value: _is_whole(value, low=-1)),
    "seed": ("a whole number", lambda value: _is_whole(value, low=-(2**53))),
    "effort": ("a text", lambda value: isinstance(value, str) and value != ""),
    "response_format": ("a table with its type", lambda value: isinstance(value, dict) and "type" in value),
    "json_mode": ("true or false", lambda value: isinstance(value, bool)),
}


def request_params(table: Table) -> dict[str, JsonValue]:
    """Return every key of a table of request parameters; what a provider sends of them is its own.

    Raises:
        ConfigError: a parameter is unknown, or its value could not be sent to any model.

    >>> from canaryd.tables import parse_table
    >>> request_params(parse_table("max_tokens = 64", source="c.toml"))
    {'max_tokens': 64}
    >>> request_params(parse_table("max_tokens = -5", source="c.toml"))
    Traceback (most recent call last):
    canaryd.errors.ConfigError: c.toml:1: max_tokens is -5, but must be a whole number from 1 on
    """
    values = json_values(table)
    for key, value in values.items():
        if key not in PARAMS:
            table.refuse(key, f"is unknown; allowed request parameters: {', '.join(PARAMS)}")
        said, is_sendable = PARAMS[key]
        if not is_sendable(value):
            table.refuse(key, f"is {as_toml(value)}, but must be {said}")
    return values


def json_values(table: Table) -> dict[str, JsonValue]:
    """Return every key of a table that is sent as JSON.

    Raises:
        ConfigError: a value is none that a JSON request can hold (a date, an infinity, a number that would be rounded).
    """
    values = table.rest()
    for key, value in values.items():
        if not _is_json(value):
            table.refuse(
                key, f"is {as_toml(value)}, which no JSON request can hold; write a text, a number, true or false"
            )
    return {key: cast("JsonValue", value) for key, value in values.items()}


def _is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(_is_json(inner) for inner in value.values())
    if isinstance(value, list):
        return all(_is_json(inner) for inner in value)
    return isinstance(value, str | bool) or (isinstance(value, int | float) and abs(value) <= 2**53)
