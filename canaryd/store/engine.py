"""Opening a store: one writer, separate readers, the same behaviour on SQLite and PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    StatementError,
)

from canaryd.errors import CanarydError, ConfigError, StoreUnavailable
from canaryd.store.place import place_of, require_not_taken_away
from canaryd.store.schema import REVISIONS
from canaryd.store.trouble import is_read_only, said_of

#: Marks a SQLite file as a store of canaryd ("cnry").
APPLICATION_ID = 0x636E7279
_OLDEST_SQLITE = (3, 37)
_INSUFFICIENT_PRIVILEGE = "42501"
_WRITER = "canaryd_writer"
_POSTGRES_SETTINGS = {
    "TimeZone": "UTC",
    "statement_timeout": "30s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "60s",
}


class RowRefused(CanarydError):
    """The database refused a row that breaks a rule of the schema; the text names the rule and no value."""


class Store:
    """An open store. `read` and `write` give transactions; `close` lets go of every connection.

    Both raise StoreUnavailable when the database cannot be used (missing, locked, full, read-only, gone, its file moved
    or replaced), and RowRefused when a row breaks a rule of the schema. `name` is the URL as `shown` gives it, `place`
    the file of a SQLite store.
    """

    def __init__(self, url: URL) -> None:
        self.name = shown(url)
        self._file = file_of(url)
        self.place = place_of(self._file)
        self._writer = _writer_engine(url)
        self._reader = _reader_engine(url)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that sees one unchanging state of the store and cannot write."""
        with self._explained(), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection inside one transaction, committed at the end of the block; keep the block short."""
        with self._explained(), self._writer.begin() as connection:
            yield connection

    def require_writes(self) -> None:
        """Commit a transaction that changes nothing; raise StoreUnavailable where that fails or lacks room."""
        if self.place is not None:
            self.place.require_room()
        with self.write() as connection:
            is_sqlite = connection.dialect.name == "sqlite"
            # Either makes the database write and sync its log, which it does not do for an empty transaction.
            connection.exec_driver_sql(
                f"PRAGMA application_id={APPLICATION_ID}" if is_sqlite else "SELECT txid_current()"
            )

    def close(self) -> None:
        """Close every connection."""
        self._writer.dispose()
        self._reader.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        if self.place is not None:
            self.place.require()
        try:
            yield
        except IntegrityError as error:
            # The driver's own text, and so its chain, may quote the refused row: prompts and answers stay out of logs.
            raise RowRefused(f"store {self.name} refused a row: {_broken_rule(error)}") from None
        except DataError:
            raise RowRefused(f"store {self.name} refused a row: a value is out of the range of its column") from None
        except DBAPIError as error:
            if not is_unavailable(error):
                raise
            raise StoreUnavailable(f"store {self.name} cannot be used: {said_of(error, near=self._file)}") from error
        except StatementError as error:
            if error.orig is None:
                raise
            # A value that its column type refuses (a naive time, NaN in JSON): the type's own error says which.
            raise error.orig from None


def parse_url(url: str) -> URL:
    """Return a store URL; raise ConfigError unless it is `sqlite:///FILE` or `postgresql://...`."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is not None and parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed is not None and parsed.get_backend_name() == "sqlite" and parsed.database not in {None, "", ":memory:"}:
        return parsed.set(drivername="sqlite+pysqlite")
    raise ConfigError("store.url is neither sqlite:///FILE nor postgresql://USER@HOST/DATABASE; write one of the two")


def shown(url: URL) -> str:
    """Return a parsed store URL as a person writes it, without its password.

    >>> shown(parse_url("sqlite:////var/lib/canaryd.db")), shown(parse_url("postgresql://me:secret@here/db"))
    ('sqlite:////var/lib/canaryd.db', 'postgresql://me:***@here/db')
    """
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def file_of(url: URL) -> Path | None:
    """Return the file of a SQLite store, None for a database of a server."""
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def open_store(url: str, *, create: bool = False) -> Store:
    """Open the store at a URL (a relative SQLite path is relative to the working directory).

    With `create`, a store that does not exist yet is made; one of an older schema is never upgraded here.

    Raises:
        StoreUnavailable: the store is missing, was taken away while it was open, cannot be read, or its schema is not
            the one of this canaryd.
        ConfigError: the URL is of no supported kind.
    """
    parsed = parse_url(url)
    if create and revision(parsed) is None:
        from canaryd.store.migrate import upgrade

        upgrade(url)
    store = Store(parsed)
    try:
        found = _revision_through(store._reader, parsed)
        if found is None:
            cure = "create it with `canaryd db upgrade`"
            if store._file is not None and store._file.exists():
                raise StoreUnavailable(f"store {store.name} is an empty file; restore a backup, or {cure} if it is new")
            raise StoreUnavailable(f"store {store.name} does not exist; {cure}")
        if found != REVISIONS[-1]:
            cure = (
                "run `canaryd db upgrade`"
                if found in REVISIONS
                else "it was written by a newer canaryd; install that one"
            )
            raise StoreUnavailable(f"store {store.name} has schema {found}, this canaryd reads {REVISIONS[-1]}; {cure}")
    except StoreUnavailable:
        store.close()
        raise
    return store


def revision(url: URL) -> str | None:
    """Return the schema revision of the store at a URL, None where there is no store yet.

    Raises:
        StoreUnavailable: the database cannot be reached, the file is not a store of canaryd, or one that was open was
            taken away.
    """
    engine = _reader_engine(url)
    try:
        return _revision_through(engine, url)
    finally:
        engine.dispose()


def _revision_through(engine: Engine, url: URL) -> str | None:
    is_sqlite = url.get_backend_name() == "sqlite"
    if is_sqlite and not _is_file(url):
        return None
    try:
        with engine.connect() as connection:
            if is_sqlite:
                _require_store_file(connection, shown(url))
            found: str | None = None
            if _has_table(connection, "alembic_version"):
                found = connection.scalar(text("SELECT version_num FROM alembic_version"))
            elif is_sqlite and connection.scalar(text("PRAGMA page_count")):
                raise StoreUnavailable(
                    f"{shown(url)} is a store of canaryd that has lost the table of its schema; restore a backup"
                )
            if found is None and _has_table(connection, "run_start"):
                raise StoreUnavailable(
                    f"{shown(url)} is a store of canaryd that has lost the number of its schema; restore a backup"
                )
            return found
    except DBAPIError as error:
        raise StoreUnavailable(f"store {shown(url)} cannot be opened: {said_of(error, near=file_of(url))}") from error


def _has_table(connection: Connection, name: str) -> bool:
    known = "SELECT name FROM sqlite_master WHERE name = :name"
    query = known if connection.dialect.name == "sqlite" else "SELECT to_regclass(:name)"
    return connection.scalar(text(query), {"name": name}) is not None


def sqlite_engine(url: URL, *, begin: str, pragmas: tuple[str, ...], pool_size: int) -> Engine:
    """Return an engine on a SQLite file whose transactions start with the statement `begin`.

    The driver's own transaction handling is off: left on, it would not roll back DDL and would begin reads late.
    """
    engine = create_engine(
        url, hide_parameters=True, pool_size=pool_size, max_overflow=0, connect_args={"isolation_level": None}
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        # Not every SQLite is compiled with mathematical functions.
        connection.create_function("ln", 1, math.log, deterministic=True)
        for pragma in ("busy_timeout=5000", *pragmas):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def postgres_engine(url: URL, *, read_only: bool) -> Engine:
    """Return an engine on a PostgreSQL database; a reader's transactions are read-only snapshots."""
    settings = {**_POSTGRES_SETTINGS, "default_transaction_read_only": "on" if read_only else "off"}
    options = " ".join(f"-c {key}={value}" for key, value in settings.items())
    return create_engine(
        url,
        hide_parameters=True,
        pool_size=2,
        pool_pre_ping=True,
        pool_recycle=1800,
        isolation_level="REPEATABLE READ" if read_only else "READ COMMITTED",
        connect_args={"application_name": "canaryd", "options": options, "connect_timeout": 10},
    )


def _writer_engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        engine = postgres_engine(url, read_only=False)
    else:
        # What is deleted is overwritten: a text that has expired is not in the file any more.
        pragmas = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")
        engine = sqlite_engine(url, begin="BEGIN IMMEDIATE", pragmas=pragmas, pool_size=1)
    engine.update_execution_options(**{_WRITER: True})
    return engine


def _reader_engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        return postgres_engine(url, read_only=True)
    path = Path(str(url.database)).absolute()
    log = path.with_name(f"{path.name}-wal")
    if path.is_file() and is_read_only(path.parent) and not (log.exists() and log.stat().st_size):
        # SQLite cannot make the files beside the store that a reader needs. Nothing changes on such a disk, so that it
        # needs none, unless a log says that a writer elsewhere has not ended.
        url = url.set(database=path.as_uri(), query={"uri": "true", "immutable": "1"})
    return sqlite_engine(url, begin="BEGIN", pragmas=("query_only=ON",), pool_size=5)


def _is_file(url: URL) -> bool:
    """Return whether there is a file at a SQLite URL; what is there and no file, or was one, is refused."""
    path = Path(str(url.database))
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "no file"
        raise StoreUnavailable(f"{shown(url)} is {kind}; name a file in store.url")
    require_not_taken_away(path)
    return path.exists()


def _require_store_file(connection: Connection, name: str) -> None:
    """Refuse a SQLite library that is too old and a file that belongs to something else."""
    version = connection.dialect.server_version_info
    if version is not None and version < _OLDEST_SQLITE:
        raise StoreUnavailable(
            f"store {name} needs SQLite {'.'.join(map(str, _OLDEST_SQLITE))} or newer, this Python has "
            f"{'.'.join(map(str, version))}; use a newer Python"
        )
    is_empty = connection.scalar(text("PRAGMA page_count")) == 0
    if not is_empty and connection.scalar(text("PRAGMA application_id")) != APPLICATION_ID:
        raise StoreUnavailable(f"{name} is a SQLite file of another program; name a file of canaryd in store.url")


def is_unavailable(error: DBAPIError) -> bool:
    """Return whether the database failed, and neither refused a row nor met a statement that was wrong."""
    is_forbidden = getattr(error.orig, "sqlstate", None) == _INSUFFICIENT_PRIVILEGE
    return is_forbidden or not isinstance(error, IntegrityError | DataError | ProgrammingError | NotSupportedError)


def is_writer(engine: Engine) -> bool:
    """Return whether an engine is the one that a store writes through."""
    return bool(engine.get_execution_options().get(_WRITER))


def _broken_rule(error: IntegrityError) -> str:
    diagnostic = getattr(error.orig, "diag", None)
    if diagnostic is None:
        return str(error.orig)
    return str(diagnostic.message_primary)
