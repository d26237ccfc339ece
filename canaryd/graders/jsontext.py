"""JSON as models write it, read strictly, and compared by what it means."""

from __future__ import annotations

import json
import math
from typing import NoReturn

from canaryd.records import JsonValue

#: Deeper nesting is refused, so that no recursion limit of the interpreter can decide a grade.
MAX_DEPTH = 64


def read(text: str) -> JsonValue:
    """Return the JSON value in a text; a float without fraction is an int, as JSON Schema has it.

    Raises:
        ValueError: not JSON, NaN or an infinity, a key that comes twice, or nested deeper than MAX_DEPTH.

    >>> read('{"a": [1.0, true, null]}')
    {'a': [1, True, None]}
    """
    try:
        value: JsonValue = json.loads(
            text, parse_float=_float, parse_constant=_refuse, object_pairs_hook=_object_of_unique_keys
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for one in level for child in _children(one)]
    if level:
        raise ValueError("nested too deeply")
    return value


def form(value: JsonValue) -> str:
    """Return one text for all JSON values that mean the same: 1 and 1.0 do, 1 and true do not.

    >>> form({"b": 1.0, "a": [1]}) == form({"a": [1.0], "b": 1}), form(True) == form(1)
    (True, False)
    """
    return json.dumps(read(json.dumps(value)), sort_keys=True)


def _float(text: str) -> float | int:
    """Return a number written with a fraction or an exponent."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is beyond the range of numbers")
    return int(value) if value.is_integer() else value


def _refuse(text: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError(f"{text} is not JSON")


def _object_of_unique_keys(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return an object, refusing a key that comes twice."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("a key comes twice")
    return unique


def _children(value: JsonValue) -> list[JsonValue]:
    """Return the values directly inside a value."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
