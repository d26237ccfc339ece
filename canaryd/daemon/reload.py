"""Reading the configuration again: what is registered cannot change under a running series."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from canaryd.config import Budget, Config, SeriesConfig, parse
from canaryd.daemon.desk import Loaded
from canaryd.errors import ConfigError
from canaryd.files import read_text
from canaryd.records import Arm


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
    an arm or a judge may change. The rest is what a series was registered with, or where it is kept, and needs a new
    series or a restart.

    Raises:
        ConfigError: it cannot be read, or changes something that may not change; the one in force stays.
    """
    loaded = load(before.config.path, log_level=before.log_level)
    old, new = fixed_parts(before.config), fixed_parts(loaded.config)
    changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    if changed:
        raise ConfigError(
            f"{before.config.path}: {', '.join(changed)} changed, which a running daemon does not take over; "
            "restore it, or stop the daemon and register a new series"
        )
    return loaded


def fixed_parts(config: Config) -> dict[str, Any]:
    """Return what may not change while the daemon runs, by a name for a person."""
    return {
        "store.url": config.store_url,
        "schedule.time_utc": config.schedule.due_minute,
        "demo.clock": config.demo_clock,
        "daemon.listen": config.service.listen,
        "the list of series": [series.name for series in config.series],
        **{f"series {series.name!r}": _fixed(series) for series in config.series},
    }


def _fixed(series: SeriesConfig) -> SeriesConfig:
    judge = series.judge
    if judge is not None:
        judge = replace(judge, config=replace(judge.config, arm=_paceless(judge.config.arm)))
    arms = tuple(_paceless(arm) for arm in series.arms)
    return replace(series, budget=Budget(), heartbeat_url=None, arms=arms, judge=judge)


def _paceless(arm: Arm) -> Arm:
    return replace(arm, credential=None, concurrency=1, requests_per_minute=None, timeout_s=1.0)
