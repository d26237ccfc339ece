"""`canaryd db`: the store's schema."""

from __future__ import annotations

import click

from canaryd.cli.context import load_config


@click.group()
def db() -> None:
    """Create and upgrade the store."""


@db.command("upgrade")
@click.pass_obj
def upgrade_command(config_file: str | None) -> None:
    """Create the store, or bring its schema up to this canaryd's."""
    from canaryd.store.engine import open_store
    from canaryd.store.migrate import upgrade

    config = load_config(config_file)
    upgrade(config.store_url)
    with open_store(config.store_url) as store:
        click.echo(f"store {store.name}: schema is current")
