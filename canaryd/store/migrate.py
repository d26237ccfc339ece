"""Bringing a store to the schema of this canaryd; the only module that needs alembic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib.resources import files
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import URL, Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from canaryd.errors import StoreUnavailable
from canaryd.store import ledger, read, replies, run_totals, totals
from canaryd.store.backup import back_up
from canaryd.store.engine import (
    APPLICATION_ID,
    file_of,
    open_store,
    parse_url,
    postgres_engine,
    revision,
    shown,
    sqlite_engine,
)
from canaryd.store.lease import require_unheld
from canaryd.store.metadata import metadata
from canaryd.store.process import is_alive
from canaryd.store.schema import REVISIONS
from canaryd.store.trouble import said_of

# A partial index has one condition on both databases. The schema gives SQLite's alone, since naming PostgreSQL's loads
# its dialect, which every command would pay for.
for _table in metadata.tables.values():
    for _index in _table.indexes:
        if (_condition := _index.dialect_options["sqlite"]["where"]) is not None:
            _index.dialect_options["postgresql"]["where"] = _condition


def upgrade(url: str, *, to: str = "head", now: datetime | None = None) -> Path | None:
    """Create the store at a URL, or bring it to a revision, in one transaction: all or nothing.

    Return the copy that was made first of a SQLite store with rows in it; None if there was none to copy. With `now`, a
    store is left alone whose series a living process holds: it would go on with the schema that it knows.

    Raises:
        Locked: a living process holds a series.
        StoreUnavailable: the database cannot be used, or migrated rows would break a foreign key; nothing is changed.
    """
    found = revision(parse_url(url))
    if found is not None and found not in REVISIONS:
        name = shown(parse_url(url))
        raise StoreUnavailable(f"store {name} has schema {found}, which a newer canaryd wrote; install that one")
    if now is not None and found is not None and found != REVISIONS[-1]:
        _require_unheld(url, now=now)
    copy = _migrate(url, lambda config: command.upgrade(config, to))
    if revision(parse_url(url)) == REVISIONS[-1]:
        with open_store(url) as store:
            with store.write() as connection:
                totals.keep_missing(connection)
                run_totals.keep_missing(connection)
                if found is not None and found < ledger.WHOLE_SINCE:
                    for series in read.all_series(connection):
                        ledger.adopt(connection, series.name)
            replies.pack_closed(store)
    return copy


def downgrade(url: str, *, to: str) -> Path | None:
    """Take the store at a URL back to an older revision (`base`: nothing left), in one transaction.

    Return the copy that was made first of a SQLite store, as `upgrade`.

    Raises:
        StoreUnavailable: as `upgrade`.
    """
    return _migrate(url, lambda config: command.downgrade(config, to))


def rehearse(url: str) -> tuple[str, ...]:
    """Return the revisions that `upgrade` would apply, after applying them in a transaction that is undone.

    Nothing changes and nothing is copied; of a store that does not exist yet, all revisions are named.

    Raises:
        StoreUnavailable: as `upgrade`.
    """
    parsed = parse_url(url)
    found = revision(parsed)
    if found is not None:
        _in_transaction(parsed, lambda config: command.upgrade(config, "head"), keep=False)
    return REVISIONS[0 if found is None else REVISIONS.index(found) + 1 :]


def migrations_dir() -> Path:
    """Return the directory of the migration scripts: package data in a wheel, the top-level directory in a checkout."""
    package = Path(str(files("canaryd")))
    packaged = package / "data" / "migrations"
    return packaged if packaged.is_dir() else package.parent / "migrations"


def alembic_config(connection: Connection | None = None) -> Config:
    """Return alembic's configuration; migrations run in the transaction of the given connection."""
    config = Config()
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _migrate(url: str, step: Callable[[Config], None]) -> Path | None:
    parsed = parse_url(url)
    copy = _copy_first(parsed)
    _in_transaction(parsed, step, keep=True)
    return copy


def _require_unheld(url: str, *, now: datetime) -> None:
    engine = _engine(parse_url(url))
    try:
        with engine.connect() as connection:
            require_unheld(connection, now=now, is_alive=is_alive)
    finally:
        engine.dispose()


def _in_transaction(url: URL, step: Callable[[Config], None], *, keep: bool) -> None:
    """Run a step in one transaction, which is kept or undone."""
    engine = _engine(url)
    try:
        with engine.connect() as connection, connection.begin() as transaction:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('canaryd:migrate', 0))"))
            step(alembic_config(connection))
            if connection.dialect.name == "sqlite":
                _close_sqlite_migration(connection, url)
            if not keep:
                transaction.rollback()
    except DBAPIError as error:
        raise StoreUnavailable(f"store {shown(url)} cannot be migrated: {said_of(error, near=file_of(url))}") from error
    finally:
        engine.dispose()


def _copy_first(url: URL) -> Path | None:
    """Copy a SQLite store beside itself, unless there is none or it has the newest schema already."""
    found = revision(url)
    if url.get_backend_name() != "sqlite" or found in {None, REVISIONS[-1]}:
        return None
    path = Path(str(url.database))
    copy = path.with_name(f"{path.name}.{found}")
    back_up(path, copy)
    return copy


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        return postgres_engine(url, read_only=False)
    # A table is changed by recreating it: with foreign keys on that would delete or refuse its children, and without
    # the legacy renaming it fails where a view or a trigger names the table.
    pragmas = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=OFF", "legacy_alter_table=ON")
    return sqlite_engine(url, begin="BEGIN IMMEDIATE", pragmas=pragmas, pool_size=1)


def _close_sqlite_migration(connection: Connection, url: URL) -> None:
    broken = connection.execute(text("PRAGMA foreign_key_check")).first()
    if broken is not None:
        raise StoreUnavailable(
            f"store {url.database} was not migrated: a row of table {broken[0]} would lose the row of {broken[2]} "
            "that it names; restore a backup or report this"
        )
    connection.execute(text(f"PRAGMA application_id={APPLICATION_ID}"))
