"""The daily copies of the store: which there are, when the next is owed, and which are too many."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from canaryd.config import Config
from canaryd.daemon.errand import Errand
from canaryd.daemon.worker import Order, Worker
from canaryd.errors import UsageError
from canaryd.records import JsonValue
from canaryd.runner.clock import clock_of
from canaryd.service_config import Backup, ServiceConfig
from canaryd.store.backup import back_up, dump_postgres, make_folder
from canaryd.store.engine import parse_url

EVERY_S = 86400.0
#: A copy that failed is tried again after so long.
AGAIN_S = 3600.0
#: A copy that takes longer than this hangs.
LONGEST_S = 6 * 3600.0
BACKUP, EXPORT = "backup", "export"
_PREFIX = "canaryd-"


class Copies:
    """Sends a child for a copy once a day, an hour after one that failed, and knows why the last one did."""

    def __init__(self, start_worker: Callable[[Order], Worker]) -> None:
        self._failed: dict[str, str] = {}
        self._errand = Errand(start_worker, longest_s=LONGEST_S)
        self._not_before_s = 0.0

    def tick(self, backup: Backup, order: Order, *, is_quiet: bool) -> None:
        """Look after the child under way, or send one where the newest copy is a day old and nothing is measured."""
        code = self._errand.ended()
        if code:
            self._failed.setdefault(
                BACKUP, f"the child that copies ended with {code}; look at its last lines in the log"
            )
        now_s = time.time()
        is_owed = not 0 <= now_s - newest_s(backup) < EVERY_S
        if is_owed and is_quiet and not self._errand.is_under_way and now_s >= self._not_before_s:
            self._not_before_s = now_s + AGAIN_S
            self._errand.begin(order)

    def note(self, table: str, failed: str | None) -> None:
        """Note how the copy that a table asks for went; called from the thread that reads what a child reports."""
        if failed is None:
            self._failed.pop(table, None)
        else:
            self._failed[table] = failed

    def failures(self, service: ServiceConfig) -> dict[str, JsonValue]:
        """Return why the last copy of each table that is configured failed, where it did."""
        configured = {BACKUP: service.backup, EXPORT: service.export}
        return {table: why for table, why in self._failed.copy().items() if configured[table] is not None}

    def try_again(self) -> None:
        """Have a copy that failed tried at the next tick: a person may have mended what was in its way."""
        self._not_before_s = 0.0

    def stop(self) -> None:
        """Kill a child that is under way; its unfinished copy never gets its name."""
        self._errand.stop()


def newest_s(backup: Backup) -> float:
    """Return when the newest copy was made, as Unix time; 0 where there is none."""
    return max((each.stat().st_mtime for each in copies(backup)), default=0.0)


def copies(backup: Backup) -> list[Path]:
    """Return the copies in a folder, oldest first; one that is not finished yet is none."""
    return sorted(each for each in backup.folder.glob(f"{_PREFIX}*") if each.suffix in (".sqlite", ".dump"))


def export_copy(config: Config) -> None:
    """Replace the copy for other readers, where the configuration names one; only a SQLite store needs it.

    Raises:
        StoreUnavailable: the store cannot be read, or the copy cannot be written.
    """
    file, url = config.service.export, parse_url(config.store_url)
    if file is not None and url.get_backend_name() == "sqlite":
        make_folder(file.parent)
        back_up(Path(str(url.database)), file)


def make_copy(config: Config) -> Path:
    """Copy the store into the folder of its copies, delete those that are too many, and return the new one.

    Raises:
        UsageError: the configuration names no folder, or `pg_dump` is not installed.
        StoreUnavailable: the store cannot be read, or the copy cannot be written.
        OSError: an old copy cannot be deleted.
    """
    backup = config.service.backup
    if backup is None:
        raise UsageError(f"{config.path}: there is no [backup]; add one with a folder, or name the file of the copy")
    make_folder(backup.folder)
    url, stem = parse_url(config.store_url), f"{_PREFIX}{clock_of(config).now():%Y-%m-%dT%H%M%SZ}"
    if url.get_backend_name() == "sqlite":
        made = backup.folder / f"{stem}.sqlite"
        back_up(Path(str(url.database)), made)
    else:
        made = backup.folder / f"{stem}.dump"
        dump_postgres(url, made)
    for old in copies(backup)[: -backup.keep]:
        old.unlink()
    return made
