"""`canaryd config`: what the configuration file says, and whether it can be used."""

from __future__ import annotations

import os
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canaryd.cli.context import find_config, load_config
from canaryd.config import Config, SeriesConfig
from canaryd.errors import StoreUnavailable
from canaryd.messages import say
from canaryd.wording import counted

if TYPE_CHECKING:
    from canaryd.panel import Panel


@click.group()
def config() -> None:
    """Show and check the configuration."""


@config.command("show")
@click.pass_obj
def show_command(config_file: str | None) -> None:
    """Print every value that is in force, defaults included; no key ever stands in it."""
    path = find_config(config_file)
    origin = (
        "--config" if config_file else "$CANARYD_CONFIG" if os.environ.get("CANARYD_CONFIG") else "the usual places"
    )
    click.echo(f"# {path.resolve()} (from {origin})")
    loaded = load_config(config_file)
    for name, value in _flat(asdict(loaded)):
        click.echo(f"{name} = {value}")


@config.command("check")
@click.pass_obj
def check_command(config_file: str | None) -> None:
    """Read the configuration, each panel with its lock, each registration and each arm's settings; exit 78 or 69.

    A series that the store knows is held against what was registered: its panel, registration, seed and arms. The
    webhook's key must be there as those of the arms: exit 77 where one is missing.
    """
    from canaryd.runner.project import frozen_panel
    from canaryd.runner.registering import check_registration, known_information

    loaded = load_config(config_file)
    _check_service(loaded)
    for series in loaded.series:
        panel = frozen_panel(series)
        protocol, warnings = check_registration(series, panel, information=known_information(loaded, series))
        for warning in warnings:
            say(f"warning: {warning}")
        _build_arms(loaded, panel=panel, name=series.name)
        standing = _require_as_registered(loaded, series, panel=panel)
        sizes = f"{counted(len(panel.items), 'item')}, {counted(len(series.arms), 'arm')}"
        click.echo(f"{series.name}: {sizes}, registration {protocol.digest}, {standing}")


def _require_as_registered(loaded: Config, series: SeriesConfig, *, panel: Panel) -> str:
    """Return how the files of a series stand to what was registered; refuse those that are not as registered."""
    from canaryd.runner.project import is_registered, require_as_registered
    from canaryd.store.engine import open_store

    try:
        with open_store(loaded.store_url) as store:
            if not is_registered(store, series.name):
                return "not registered yet"
            require_as_registered(series, panel, store=store)
    except StoreUnavailable as error:
        return f"not held against a store ({error})"
    return "as registered"


def _check_service(loaded: Config) -> None:
    """Look whether the daemon can serve, tell and copy as configured."""
    from canaryd.service_config import address_of
    from canaryd.store.engine import file_of, parse_url
    from canaryd.webhook.deliver import receiver_of

    address = address_of(loaded.service.listen)
    if address is not None and not address.ip.is_loopback:
        say(
            f"warning: daemon.listen {loaded.service.listen} faces other machines; the daemon starts only with a "
            "--web.config.file that has tls_server_config, or with --web.insecure-listen"
        )
    if loaded.service.backup is None and file_of(parse_url(loaded.store_url)) is not None:
        click.echo(
            "warning: nothing copies the store, and without [backup] no alert says so; set backup.folder, or run "
            "`canaryd db backup` from a timer",
            err=True,
        )
    if loaded.service.webhook is not None:
        receiver_of(loaded)


def _build_arms(loaded: Config, *, panel: Panel, name: str) -> None:
    from canaryd.runner.project import provider_builder

    build = provider_builder(loaded, panel)
    for arm in loaded.one_series(name).asked:
        build(arm)


def _flat(value: Any, *, name: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        rows = []
        for key, inner in value.items():
            rows += _flat(inner, name=f"{name}.{key}" if name else str(key))
        return rows
    if isinstance(value, list | tuple) and any(isinstance(each, dict) or is_dataclass(each) for each in value):
        rows = []
        for place, inner in enumerate(value):
            rows += _flat(inner, name=f"{name}[{place}]")
        return rows
    shown = str(value) if isinstance(value, Path) else repr(value)
    return [(name, shown)] if value is not None else []
