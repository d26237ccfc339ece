"""From the bytes of a panel's two files to a Panel, refusing what cannot be used as written."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from canaryd import hashing
from canaryd.errors import ConfigError
from canaryd.panel.model import Grading, Lock, Panel, Row, system_path
from canaryd.records import GraderSpec, Item, JsonValue

HEADER_KEYS = ("name", "version", "licence", "canary")
OPTIONAL_HEADER_KEYS = ("seed_commitment",)
ITEM_KEYS = ("id", "family", "cluster", "prompt", "target", "grader", "sentinel", "replicates")

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class _LineError(ValueError):
    """A line cannot be used as written; the text is the sentence that says why."""


def parse(data: bytes, system: bytes, *, graders: Grading, path: str = "panel.jsonl") -> Panel:
    """Return the panel in the bytes of its two files.

    Raises:
        ConfigError: something in it cannot be used; the text is "file:line: sentence" for the first such thing.
    """
    header, rows, complaints = read_rows(data, graders=graders, path=path)
    complaints += system_complaints(system, path)
    if complaints:
        raise ConfigError(complaints[0])
    return Panel(
        path=path,
        **{key: str(header[key]) for key in HEADER_KEYS},
        items=tuple(row.item for row in rows),
        system=system.decode(),
        lock=_lock(header, rows, system=system, graders=graders),
        lines={row.item.item_id: row.line for row in rows},
    )


def _lock(header: Mapping[str, JsonValue], rows: list[Row], *, system: bytes, graders: Grading) -> Lock:
    """Return the digests of a panel's parts."""
    used = {name: graders.digest(name) for name in sorted({row.item.grader.type for row in rows})}
    content = hashing.canonical_json([header, *[row.raw for row in rows]])
    parts = [content, system, *[f"{name} {digest}".encode() for name, digest in used.items()]]
    return Lock(
        name=str(header["name"]),
        version=str(header["version"]),
        digest=hashing.digest_parts(parts),
        header=hashing.digest(hashing.canonical_json(header)),
        system=hashing.digest(system),
        items={row.item.item_id: hashing.digest(hashing.canonical_json(row.raw)) for row in rows},
        graders=used,
    )


def system_complaints(system: bytes, path: str) -> list[str]:
    """Return a complaint where the system prompt is not UTF-8."""
    try:
        system.decode()
    except UnicodeDecodeError as error:
        line = system.count(b"\n", 0, error.start) + 1
        return [f"{system_path(path)}:{line}: the system prompt is not UTF-8, so it cannot be sent; save it as UTF-8"]
    return []


def read_rows(data: bytes, *, graders: Grading, path: str) -> tuple[Mapping[str, JsonValue], list[Row], list[str]]:
    """Return the header (empty where it is refused), the rows that can be used, and a complaint for each other line.

    Complaints are "file:line: sentence", in the order of the file.
    """
    header: Mapping[str, JsonValue] = {}
    rows: list[Row] = []
    complaints: list[str] = []
    first_line: dict[str, int] = {}
    lines = data.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            raw = _json_object(line)
            if number == 1:
                header = _header(raw)
                continue
            row = Row(number, raw, _item(raw, graders))
            before = first_line.setdefault(row.item.item_id, number)
            if before != number:
                raise _LineError(f"the id {row.item.item_id} stands on line {before} too; items pair by id, rename one")
            rows.append(row)
        except _LineError as error:
            complaints.append(f"{path}:{number}: {error}")
    if len(lines) == 1:
        complaints.append(f"{path}:1: the panel has no items; add one JSON object a line after the header")
    return header, rows, complaints


def _json_object(line: bytes) -> dict[str, JsonValue]:
    """Return the JSON object on a line that has a canonical form."""
    try:
        raw = json.loads(line.decode(), object_pairs_hook=_unique_keys)
        hashing.canonical_json(raw)
    except UnicodeDecodeError:
        raise _LineError("the line is not UTF-8; save the file as UTF-8") from None
    except _LineError:
        raise
    except (ValueError, RecursionError) as error:
        hint = "write an integer beyond 2**53 as a string" if "canonical" in str(error) else "write one object a line"
        raise _LineError(f"the line is not JSON that can be hashed ({error}); {hint}") from None
    if not isinstance(raw, dict):
        raise _LineError("the line is not a JSON object; write one object a line")
    return raw


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of key-value pairs, refusing a key that comes twice."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _LineError(f"the key {twice!r} comes twice in one object; remove one")
    return unique


def _refuse_unknown(raw: Mapping[str, JsonValue], allowed: tuple[str, ...], *, what: str) -> None:
    """Refuse a key that is not allowed, listing those that are."""
    unknown = next((key for key in raw if key not in allowed), None)
    if unknown is not None:
        raise _LineError(f"{what} has the unknown key {unknown!r}; allowed are {', '.join(allowed)}")


def _text(raw: Mapping[str, JsonValue], key: str, *, what: str) -> str:
    """Return a value that must be a string with something in it."""
    value = raw.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _LineError(f"{what} needs {key!r} as a string that is not empty")
    return value


def _header(raw: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return the header, checked."""
    _refuse_unknown(raw, HEADER_KEYS + OPTIONAL_HEADER_KEYS, what="the header")
    for key in (*HEADER_KEYS, *[key for key in OPTIONAL_HEADER_KEYS if key in raw]):
        _text(raw, key, what="the header")
    try:
        UUID(str(raw["canary"]))
    except ValueError:
        raise _LineError("the header's 'canary' is not a GUID; write one such as uuidgen prints") from None
    return raw


def _item(raw: Mapping[str, JsonValue], graders: Grading) -> Item:
    """Return the item that a line describes, checked by itself."""
    _refuse_unknown(raw, ITEM_KEYS, what="the item")
    item_id = _text(raw, "id", what="the item")
    what = f"item {item_id}"
    if not _ID.fullmatch(item_id):
        raise _LineError(f"{what} has an id with other characters than letters, digits, '.', '_' and '-'; rename it")
    sentinel, replicates = raw.get("sentinel", False), raw.get("replicates", 1)
    if not isinstance(sentinel, bool):
        raise _LineError(f"{what} has a 'sentinel' that is neither true nor false")
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
        raise _LineError(f"{what} has 'replicates' that is not a whole number from 1 up")
    if sentinel and "family" in raw:
        raise _LineError(f"{what} is a sentinel and names a family; sentinels measure no family, remove 'family'")
    if "target" not in raw:
        raise _LineError(f"{what} has no 'target'")
    item = Item(
        item_id=item_id,
        family=None if sentinel else _text(raw, "family", what=what),
        cluster=_text(raw, "cluster", what=what) if "cluster" in raw else item_id,
        prompt=_text(raw, "prompt", what=what),
        target=raw["target"],
        grader=_grader(raw.get("grader"), what),
        sentinel=sentinel,
        replicates=replicates,
    )
    if item.sentinel and item.is_judged:
        raise _LineError(
            f"{what} is a sentinel that a judge grades; an opinion watches nothing, give it another grader"
        )
    complaint = graders.complaint(item)
    if complaint is not None:
        raise _LineError(f"{what} cannot be graded: {complaint}")
    return item


def _grader(raw: JsonValue, what: str) -> GraderSpec:
    """Return the grader an item names: `type`, and everything else as its options."""
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        raise _LineError(f"{what} needs 'grader' as an object with a 'type', such as {{\"type\": \"exact\"}}")
    return GraderSpec(str(raw["type"]), {key: value for key, value in raw.items() if key != "type"})


def read(path: str) -> tuple[bytes, bytes]:
    """Return the bytes of the panel file at a path and of the system prompt beside it.

    Raises:
        ConfigError: one of the two cannot be read.
    """
    try:
        return Path(path).read_bytes(), Path(system_path(path)).read_bytes()
    except OSError as error:
        raise ConfigError(f"{error.filename}: the panel cannot be read ({error.strerror}); check the path") from None


def load(path: str, *, graders: Grading) -> Panel:
    """Return the panel at a path; see `read` and `parse` for what is raised."""
    data, system = read(path)
    return parse(data, system, graders=graders, path=path)
