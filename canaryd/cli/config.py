"""`canaryd config`: what the configuration file says, and whether it can be used."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from canaryd.cli.context import find_config, load_config
from canaryd.cli.keys import key_warning, keys_of
from canaryd.config import Config, SeriesConfig, parse
from canaryd.errors import StoreUnavailable
from canaryd.files import read_text
from canaryd.messages import say
from canaryd.tables import Taken
from canaryd.wording import as_toml, counted

if TYPE_CHECKING:
    from canaryd.panel import Panel


@click.group()
def config() -> None:
    """Show and check the configuration."""


@config.command("show")
@click.pass_obj
def show_command(config_file: str | None) -> None:
    """Print every value that is in force, and where it comes from.

    That is a line of the file, a default, the environment or an option. An address that is a key shows its host only;
    no other key ever stands in a configuration.
    """
    path = find_config(config_file)
    named = os.environ.get("CANARYD_CONFIG")
    origin = "--config" if config_file else "$CANARYD_CONFIG" if named else "the first of the usual places"
    click.echo(f"# {path.resolve()} (from {origin})")
    taken: list[Taken] = []
    parse(read_text(path), path=path, taken=taken)
    for variable in ("CREDENTIALS_DIRECTORY", "CANARYD_CREDENTIALS_DIR"):
        if folder := os.environ.get(variable):
            click.echo(f"credentials_dir = {as_toml(folder)}  # environment: ${variable}, or --credentials-dir")
    for one in taken:
        value, place = _in_force(one, file=path.name)
        click.echo(f"{one.name} = {as_toml(value)}  # {place}")


def _in_force(one: Taken, *, file: str) -> tuple[Any, str]:
    """Return what stands for a value, and where it comes from."""
    variable = _OVERRIDES.get(one.name, "")
    if os.environ.get(variable):
        return os.environ[variable], f"environment: ${variable}, for the daemon"
    value = _host_only(one.value) if one.name.endswith(".heartbeat_url") else one.value
    return value, "default" if one.line is None else f"{file}:{one.line}"


#: What an option of the daemon, given by the environment, is stronger than.
_OVERRIDES = {"daemon.listen": "CANARYD_DAEMON_LISTEN", "daemon.log_level": "CANARYD_DAEMON_LOG_LEVEL"}


def _host_only(url: str) -> str:
    """Return an address without its path, which is what makes it a key.

    >>> _host_only("https://ping.example/3f2a-77")
    'https://ping.example/***'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/***"


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
    for name, key in keys_of(loaded, loaded.series).items():
        if warning := key_warning(name, key):
            say(f"warning: {warning}")
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
