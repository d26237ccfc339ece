"""Reading the configuration again: what is registered cannot change under a running series."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

from canaryd.config import Config, PanelJudge, SeriesConfig, parse
from canaryd.daemon.desk import Loaded
from canaryd.errors import ConfigError
from canaryd.files import read_text
from canaryd.judging import JudgeConfig
from canaryd.records import Arm

#: What stands under a name for a person, key by key.
Parts: TypeAlias = dict[str, dict[str, Any]]
#: Of a series, of an arm and of a judge: what may change, and what has a name of its own here.
_FREE = frozenset(
    {"budget", "heartbeat_url", "credential", "concurrency", "requests_per_minute", "timeout_s"}
    | {"name", "arms", "judge", "arm", "config"}
)


def load(path: Path, *, log_level: str | None) -> Loaded:
    """Return the configuration in a file, to be put in force.

    Raises:
        ConfigError: it cannot be read as written.
    """
    text = read_text(path)
    return Loaded(parse(text, path=path), text, log_level)


def reload(before: Loaded) -> Loaded:
    """Return the configuration as its file reads now.

    Schedule bounds, retries, credentials, prices, budgets, heartbeats, webhook, copies, the log level and the pace of
    an arm or a judge may change. The rest is what a series was registered with, or what a process has from its start
    on, such as its series, its store and its address.

    Raises:
        ConfigError: it cannot be read, or changes something that may not change; the one in force stays.
    """
    loaded = load(before.config.path, log_level=before.log_level)
    old, new = before.config, loaded.config
    both = {series.name for series in old.series} & {series.name for series in new.series}
    restart = _changes(_served(old), _served(new))
    restore = _changes(_registered(old, series=both), _registered(new, series=both))
    if restart or restore:
        changed = ", ".join([*restart, *restore])
        raise ConfigError(
            f"{old.path}: {changed} changed, which a running daemon does not take over; {_next(restart, restore)}"
        )
    return loaded


def _next(restart: Sequence[str], restore: Sequence[str]) -> str:
    """Return what to do about parts that are had from a start on, and about those that a series is registered with."""
    start_anew = "restart the daemon (systemctl restart canaryd)"
    if not restore:
        return start_anew
    given_back = f"restore {', '.join(restore) if restart else 'it'}, or stop the daemon and register a new series"
    return f"{given_back}; for {', '.join(restart)} {start_anew}" if restart else given_back


def _changes(old: Parts, new: Parts) -> list[str]:
    """Return the parts that differ, each with its keys that do.

    >>> _changes({"a": {"x": 1, "y": 2}, "b": {}}, {"a": {"x": 3, "y": 2}, "c": {}})
    ['a (x)', 'b (taken away)', 'c (added)']
    """
    found = []
    for part in sorted(old.keys() | new.keys()):
        if part not in old or part not in new:
            found.append(f"{part} ({'added' if part in new else 'taken away'})")
            continue
        keys = [key for key in old[part].keys() | new[part].keys() if old[part].get(key) != new[part].get(key)]
        if keys:
            found.append(f"{part} ({', '.join(sorted(keys))})" if all(keys) else part)
    return found


def _served(config: Config) -> Parts:
    """Return what a process has from its start to its end; one that is a single value has no key."""
    return {
        "store.url": {"": config.store_url},
        "demo.clock": {"": config.demo_clock},
        "daemon.listen": {"": config.service.listen},
        **{f"series {series.name!r}": {} for series in config.series},
    }


def _registered(config: Config, *, series: Collection[str]) -> Parts:
    """Return what the named series are measured with."""
    parts: Parts = {"schedule.time_utc": {"": config.schedule.due_minute}}
    for one in config.series:
        if one.name in series:
            parts |= _parts(one)
    return parts


def _parts(series: SeriesConfig) -> Parts:
    name, judge = f"series {series.name!r}", series.judge
    found = {name: _keys(series), **{f"{name} arm {arm.name!r}": _keys(arm) for arm in series.arms}}
    if judge is not None:
        found[f"{name} judge"] = _keys(judge, judge.config, judge.config.arm)
    return found


def _keys(*tables: SeriesConfig | PanelJudge | JudgeConfig | Arm) -> dict[str, Any]:
    """Return the keys of a table that may not change."""
    return {
        field.name: getattr(table, field.name) for table in tables for field in fields(table) if field.name not in _FREE
    }
