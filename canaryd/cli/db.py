"""`canaryd db`: the store as a database."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from canaryd.cli.context import load_config
from canaryd.errors import StoreUnavailable, UsageError
from canaryd.messages import require_consent
from canaryd.wording import counted


@click.group()
def db() -> None:
    """Create, upgrade, check and back up the store."""


@db.command("upgrade")
@click.option("-n", "--dry-run", is_flag=True, help="Try it in a transaction that is undone, and say what it would do.")
@click.pass_obj
def upgrade_command(config_file: str | None, dry_run: bool) -> None:
    """Create the store, or bring its schema up to this canaryd's.

    An older SQLite store is copied beside itself first. All of it happens in one transaction, or nothing, and only
    while no daemon or run holds a series.
    """
    from canaryd.runner.clock import clock_of
    from canaryd.store.engine import open_store
    from canaryd.store.migrate import rehearse, upgrade

    config = load_config(config_file)
    if dry_run:
        owed = rehearse(config.store_url)
        click.echo(f"would apply schema {', '.join(owed)}" if owed else "schema is current; nothing would change")
        return
    copy = upgrade(config.store_url, now=clock_of(config).now())
    if copy is not None:
        click.echo(f"the store as it was: {copy}")
    with open_store(config.store_url) as store:
        click.echo(f"store {store.name}: schema is current")


@db.command("check")
@click.pass_obj
def check_command(config_file: str | None) -> None:
    """Check that the store is whole as a database: pages, references, and the triggers that keep its rows.

    Whether its rows are those that were measured is what `canaryd verify` says.
    """
    from canaryd.store.check import problems
    from canaryd.store.engine import open_store

    config = load_config(config_file)
    with open_store(config.store_url) as store, store.read() as connection:
        found = list(problems(connection))
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise StoreUnavailable(f"store {store.name} is damaged: {found[0]}{more}; restore a backup")
        click.echo(f"store {store.name} is whole")


@db.command("backup")
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.pass_obj
def backup_command(config_file: str | None, out: Path | None) -> None:
    """Write a copy of the store to OUT while others go on reading and writing.

    Of a SQLite store it is a checked store: to restore it, put it in the place of the store while nothing else runs. Of
    a PostgreSQL store it is what pg_dump --format=custom writes, for pg_restore. An older OUT is replaced once the new
    copy is whole. Without OUT, make one more copy in the folder of [backup] and delete those that are too many, as the
    daemon does once a day.
    """
    from canaryd.daemon.copies import make_copy
    from canaryd.store.backup import back_up, dump_postgres
    from canaryd.store.engine import open_store, parse_url

    config = load_config(config_file)
    url = parse_url(config.store_url)
    with open_store(config.store_url) as store:
        if out is None:
            out = make_copy(config)
        elif url.get_backend_name() == "sqlite":
            back_up(Path(str(url.database)), out)
        else:
            dump_postgres(url, out)
        click.echo(f"copied {store.name} to {out}")


@db.command("roles")
def roles_command() -> None:
    """Print the SQL that makes the roles of a PostgreSQL store; run it as a superuser, after each upgrade too.

    canaryd_migrate owns the tables, canaryd adds rows, canaryd_ro reads the public views. What is there stays.
    """
    from canaryd.store.roles import roles_sql

    click.echo(roles_sql(), nl=False)


@db.command("expire-texts")
@click.option("--series", "series_name", help="Which series, where there are several.")
@click.option("--before", required=True, metavar="DATE", help="Texts of slots before this UTC date go.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@click.pass_obj
def expire_texts_command(config_file: str | None, series_name: str | None, before: str, yes: bool) -> None:
    """Let the texts of old replies go; digests, grades and token counts stay, and the ledger still covers them.

    What has gone cannot be graded again; `canaryd regrade` counts it as expired. It asks before it deletes, and refuses
    where nobody can be asked.
    """
    from canaryd.runner.clock import clock_of
    from canaryd.store import read
    from canaryd.store.engine import open_store
    from canaryd.store.retention import expire_texts, stored_texts

    config = load_config(config_file)
    series = config.one_series(series_name).name
    try:
        limit = date.fromisoformat(before)
    except ValueError:
        raise UsageError(f"--before is {before!r}, but must be a date such as 2027-01-31") from None
    now = clock_of(config).now()
    if limit > now.date():
        raise UsageError(f"--before is {limit}, but texts of days to come cannot go yet; name today or a day before it")
    with open_store(config.store_url) as store:
        with store.read() as connection:
            read.series(connection, series)
            owed = counted(stored_texts(connection, series, before=limit), "reply text")
        require_consent(f"delete {owed} of {series} before {limit}", yes=yes)
        gone = counted(expire_texts(store, series, before=limit, now=now), "reply text")
    click.echo(f"{gone} of {series} before {limit} deleted; their digests and grades stay")
