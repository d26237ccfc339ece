"""Freezing a panel, verifying it against its lock, and comparing two versions of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields

from canaryd.errors import ConfigError
from canaryd.panel.model import Lock, Panel, lock_path, system_path

_REMEDY = "restore it, or freeze a new version, which is a new series"


def freeze(panel: Panel) -> bytes:
    """Return the content of the panel's lock file: JSON with the digest of the whole and of every part."""
    return (json.dumps(asdict(panel.lock), indent=1, ensure_ascii=False) + "\n").encode()


def verify(panel: Panel, lock: bytes) -> list[str]:
    """Return every difference between a panel and its lock, naming file and item; empty means it is the frozen panel.

    Raises:
        ConfigError: the lock cannot be read.
    """
    where = lock_path(panel.path)
    locked = _parse_lock(lock, where)
    found = [
        f"{sentence}: this is not the panel frozen in {where}; {_REMEDY}" for sentence in _differences(panel, locked)
    ]
    if not found and panel.lock != locked:
        found = [f"{where}: name, version or digest were edited by hand; {_REMEDY}"]
    return found


def diff(old: Panel, new: Panel) -> list[str]:
    """Return every difference between two panels, as sentences about the new one; empty means they measure the same."""
    return list(_differences(new, old.lock))


def _parse_lock(lock: bytes, where: str) -> Lock:
    """Return the lock in the bytes of its file."""
    try:
        raw = json.loads(lock)
    except ValueError:
        raw = None
    kinds = {field.name: dict if field.name in ("items", "graders") else str for field in fields(Lock)}
    if not (isinstance(raw, dict) and raw.keys() == kinds.keys() and all(isinstance(raw[k], kinds[k]) for k in kinds)):
        raise ConfigError(f"{where}: this is not a panel's lock; write it with `canaryd panel freeze PANEL`")
    return Lock(**raw)


def _differences(panel: Panel, locked: Lock) -> Iterator[str]:
    """Yield what differs from a lock, part by part."""
    now = panel.lock
    if now.header != locked.header:
        yield f"{panel.path}:1: the header differs"
    for item_id, digest in now.items.items():
        if locked.items.get(item_id) != digest:
            how = "differs" if item_id in locked.items else "is new"
            yield f"{panel.path}:{panel.lines[item_id]}: item {item_id} {how}"
    for item_id in locked.items:
        if item_id not in now.items:
            yield f"{panel.path}: item {item_id} is missing"
    if now.items.keys() == locked.items.keys() and list(now.items) != list(locked.items):
        moved = next(new for new, old in zip(now.items, locked.items, strict=True) if new != old)
        yield f"{panel.path}:{panel.lines[moved]}: the items stand in another order from item {moved} on"
    if now.system != locked.system:
        yield f"{system_path(panel.path)}: the system prompt differs"
    for name in sorted({*now.graders, *locked.graders}):
        if now.graders.get(name) != locked.graders.get(name):
            how = "is newly used" if name not in locked.graders else "judges differently"
            yield f"{panel.path}: the grader {name} {how if name in now.graders else 'is no longer used'}"
