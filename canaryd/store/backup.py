"""A consistent copy of a SQLite store while others read and write it. (PostgreSQL has `pg_dump --format=custom`.)"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from canaryd.errors import StoreUnavailable, UsageError
from canaryd.store.engine import APPLICATION_ID


def back_up(path: Path, copy: Path) -> None:
    """Write a checked copy of the store file `path` to `copy`, replacing an older copy only once the new one is whole.

    Raises:
        UsageError: the copy would replace the store itself.
        StoreUnavailable: the store cannot be read, or the copy cannot be written or is damaged.
    """
    if copy.exists() and path.exists() and copy.samefile(path):
        raise UsageError(f"{copy} is the store itself; name another file for its copy")
    partial = copy.with_name(f"{copy.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)) as store:
            store.execute("PRAGMA busy_timeout=5000")
            store.execute("VACUUM INTO ?", (str(partial),))
        _require_whole(partial)
        _sync(partial)
        partial.replace(copy)
        _sync(copy.parent)
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(
            f"store {path} was not copied to {copy}: {error}; look at the disk and repeat"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def _require_whole(partial: Path) -> None:
    with closing(sqlite3.connect(f"{partial.absolute().as_uri()}?mode=ro", uri=True)) as copy:
        found = copy.execute("PRAGMA integrity_check").fetchone()[0]
        if found != "ok" or copy.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreUnavailable(
                f"the copy {partial} is not a whole store of canaryd ({found}); run `canaryd db check`"
            )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
