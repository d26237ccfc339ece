"""A consistent copy of a store while others use it: of SQLite a store, of PostgreSQL what `pg_dump` writes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL

from canaryd.errors import StoreUnavailable, UsageError
from canaryd.files import written_whole
from canaryd.store.engine import APPLICATION_ID, shown
from canaryd.store.trouble import cured

#: Prompts and replies stand in a copy: it is for its owner, and readable for the group that other readers are in.
_MODE = 0o640


def back_up(path: Path, copy: Path) -> None:
    """Write a checked copy of the store file `path` to `copy`, replacing an older copy only once the new one is whole.

    Raises:
        UsageError: the copy would replace the store itself or what is no regular file, or has no folder.
        StoreUnavailable: the store cannot be read, or the copy cannot be written or is damaged.
    """
    if copy.exists() and path.exists() and copy.samefile(path):
        raise UsageError(f"{copy} is the store itself; name another file for its copy")
    if not copy.parent.is_dir():
        raise UsageError(f"{copy}: there is no folder {copy.parent}; make it, or name another file for the copy")
    try:
        with written_whole(copy) as partial:
            _vacuum_into(partial, path=path)
            _require_whole(partial)
            partial.chmod(_MODE)
            _sync(partial)
        _sync(copy.parent)
    except (sqlite3.Error, OSError) as error:
        raise _not_copied(f"store {path}", copy, why=error) from error


def make_folder(folder: Path) -> None:
    """Make the folder that copies are written into, where there is none.

    Raises:
        StoreUnavailable: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_copied("the store", folder, why=error) from error


def _not_copied(what: str, target: Path, *, why: Exception) -> StoreUnavailable:
    """Return the refusal of a copy that could not be written."""
    if isinstance(why, PermissionError):
        cure = f"{why.strerror}; check the owner and the permissions of {target.parent}"
    else:
        cure = cured(str(why), near=target)
    return StoreUnavailable(f"{what} was not copied to {target}: {cure}")


def dump_postgres(url: URL, copy: Path) -> None:
    """Write `pg_dump --format=custom` of a PostgreSQL store to `copy`, in one step; `pg_restore` reads it.

    Raises:
        UsageError: `pg_dump` is not installed, or the copy would replace what is no regular file.
        StoreUnavailable: it failed.
    """
    program = shutil.which("pg_dump")
    if program is None:
        raise UsageError(
            "pg_dump is not installed, and copies a PostgreSQL store; install the PostgreSQL client, or take [backup] "
            "out of the configuration and back the server up"
        )
    # It is a URL of libpq without SQLAlchemy's name of the driver; a password in it is refused by the configuration.
    source = url.set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        with written_whole(copy) as partial:
            command = [program, "--format=custom", "--no-password", f"--file={partial}", f"--dbname={source}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - pg_dump, no shell
            if done.returncode != 0:
                said = done.stderr.strip().partition("\n")[0]
                raise StoreUnavailable(
                    f"store {shown(url)} was not copied to {copy} ({said}); look at the server and repeat"
                )
            partial.chmod(_MODE)
            _sync(partial)
        _sync(copy.parent)
    except OSError as error:
        raise _not_copied(f"store {shown(url)}", copy, why=error) from error


def _vacuum_into(partial: Path, *, path: Path) -> None:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)) as store:
        store.execute("PRAGMA busy_timeout=5000")
        store.execute("VACUUM INTO ?", (str(partial),))


def _require_whole(partial: Path) -> None:
    with closing(sqlite3.connect(f"{partial.absolute().as_uri()}?mode=ro", uri=True)) as copy:
        found = copy.execute("PRAGMA integrity_check").fetchone()[0]
        if found != "ok" or copy.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreUnavailable(
                f"the copy {partial} is not a whole store of canaryd ({found}); restore an older backup of the store"
            )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
