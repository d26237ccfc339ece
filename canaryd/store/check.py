"""Whether a store is whole as a database: its pages, its references and the triggers that keep its rows."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, text

from canaryd.errors import StoreUnavailable
from canaryd.store import schema
from canaryd.store.engine import Store


def require_whole(store: Store) -> None:
    """Raise StoreUnavailable where the pages of a SQLite store are damaged; it reads the whole file once."""
    with store.read() as connection:
        if connection.dialect.name != "sqlite":
            return
        found = connection.execute(text("PRAGMA quick_check(1)")).scalar_one()
    if found != "ok":
        raise StoreUnavailable(f"store {store.name} is damaged ({found.splitlines()[-1]}); restore a backup")


def problems(connection: Connection) -> Iterator[str]:
    """Yield what is wrong with a store, most basic first; nothing when it is whole.

    What its rows say is another question, which `canaryd verify` answers.
    """
    if connection.dialect.name == "sqlite":
        found = connection.execute(text("PRAGMA integrity_check")).scalars().all()
        yield from (line for line in found if line != "ok")
        for row in connection.execute(text("PRAGMA foreign_key_check")):
            yield f"a row of table {row[0]} names a row of {row[2]} that is not there"
        # One against UPDATE and one against DELETE.
        triggers = "SELECT tbl_name FROM sqlite_master WHERE type = 'trigger' GROUP BY tbl_name HAVING count(*) = 2"
    else:
        unvalidated = "SELECT conname FROM pg_constraint WHERE NOT convalidated"
        yield from (f"the constraint {name} was never checked" for name in connection.scalars(text(unvalidated)))
        triggers = "SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgenabled = 'O' AND NOT tgisinternal"
    guarded = set(connection.scalars(text(triggers)))
    for table in schema.APPEND_ONLY:
        if table.name not in guarded:
            yield f"table {table.name} has lost a trigger that keeps its rows; somebody removed it"
