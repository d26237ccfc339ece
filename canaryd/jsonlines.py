"""Reading JSON lines whose keys are closed: what is wrong is said with the line it stands on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from canaryd.errors import ConfigError

T = TypeVar("T")


class LineError(Exception):
    """What is wrong with one line; the reader adds file and line."""


def parse_lines(data: bytes, build: Callable[[Mapping[str, Any]], T], *, source: str) -> tuple[list[T], list[str]]:
    """Return what the lines of a file build, and a complaint `file:line: sentence` for each line that builds nothing.

    Empty lines are skipped.
    """
    built, complaints = [], []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            built.append(build(_object(line)))
        except LineError as error:
            complaints.append(f"{source}:{number}: {error}")
    return built, complaints


def require_clean(complaints: list[str], *, lister: str = "") -> None:
    """Refuse a file with complaints; `lister` is the command that lists all of them.

    Raises:
        ConfigError: there is one; it names the first and counts them.
    """
    if complaints:
        listed = f"; `{lister}` lists them" if lister else ""
        more = f" ({len(complaints)} complaints in all{listed})" if complaints[1:] else ""
        raise ConfigError(complaints[0] + more)


def text_of(values: Mapping[str, Any], key: str, *, allowed: tuple[str, ...] = ()) -> str:
    """Return a text that must not be empty.

    Raises:
        LineError: it is missing, no text, empty, or none of `allowed`.
    """
    value = values.get(key)
    if not isinstance(value, str) or not value.strip():
        raise LineError(f"{key} is {json.dumps(value)}, but must be a text that is not empty")
    if allowed and value not in allowed:
        raise LineError(f"{key} is {value!r}, but must be one of {', '.join(allowed)}")
    return value


def new_id(values: Mapping[str, Any], seen: set[str]) -> str:
    """Return the id of a line, which no line before it had; `seen` grows by it.

    Raises:
        LineError: it is missing, or stands twice.
    """
    found = text_of(values, "id")
    if found in seen:
        raise LineError(f"the id {found!r} stands twice; an id is an identity, rename one")
    seen.add(found)
    return found


def refuse_unknown(values: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    """Refuse a key that is not allowed.

    Raises:
        LineError: there is one.
    """
    if unknown := next((key for key in values if key not in allowed), None):
        raise LineError(f"{unknown!r} is unknown; allowed: {', '.join(allowed)}")


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        values = json.loads(line, object_pairs_hook=_no_key_twice)
    except UnicodeDecodeError:
        raise LineError("is not UTF-8 text; save the file as UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise LineError(f"is not valid JSON ({error}); write one object on a line") from None
    if not isinstance(values, dict):
        raise LineError("is JSON, but no object; write one object on a line")
    return values


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise LineError(f"the key {twice!r} stands twice; keep one")
    return dict(pairs)
