"""The daily copies: when one is owed, how many are kept, and what a copy is."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canaryd.config import Config, parse
from canaryd.daemon import copies as module
from canaryd.daemon.copies import Copies, copies, export_copy, make_copy, newest_s
from canaryd.daemon.errands import run_errand
from canaryd.daemon.worker import Order
from canaryd.errors import StoreUnavailable, UsageError
from canaryd.store.engine import open_store
from canaryd.store.migrate import upgrade

CONFIG = """
[backup]
folder = "copies"
keep = 2
[export]
file = "export/canaryd-ro.sqlite"
[[series]]
name = "s"
panel = "p.jsonl"
[[series.arm]]
name = "old"
role = "tracked"
provider = "simulated"
model = "m-1"
"""
ORDER = Order("copy", "", "2030-01-01", "config.toml", CONFIG, "info")


class FakeWorker:
    def __init__(self, order: Order) -> None:
        self.order, self.code, self.silent_s = order, None, 0.0

    def begin(self) -> None:
        """Take the order."""

    def ended(self) -> int | None:
        return self.code

    def end(self, timeout_s: float) -> int:
        self.code = -9  # type: ignore[assignment] # None until it ends
        return -9


@pytest.fixture
def config(tmp_path: Path) -> Config:
    upgrade(f"sqlite:///{tmp_path / 'canaryd.db'}")
    return parse(CONFIG, path=tmp_path / "config.toml")


def test_a_copy_is_a_store_and_the_oldest_go(config: Config) -> None:
    backup = config.service.backup
    assert backup is not None
    assert newest_s(backup) == 0
    backup.folder.mkdir()
    for day in ("01", "02"):
        (backup.folder / f"canaryd-2020-01-{day}T000000Z.sqlite").touch()
    (backup.folder / "canaryd-2020-01-03T000000Z.sqlite.partial").touch()
    (backup.folder / "notes.txt").touch()
    made = make_copy(config)
    assert [each.name for each in copies(backup)] == ["canaryd-2020-01-02T000000Z.sqlite", made.name]
    assert newest_s(backup) == made.stat().st_mtime
    assert made.stat().st_mode & 0o777 == 0o640
    with open_store(f"sqlite:///{made}") as store, store.read():
        assert store.name.endswith(made.name)


def test_a_demo_names_its_copies_by_its_own_calendar(config: Config) -> None:
    clock = config.path.with_name("clock.txt")
    clock.write_text("2027-03-28T04:15:00+00:00\n")
    made = make_copy(replace(config, demo_clock=clock))
    assert made.name == "canaryd-2027-03-28T041500Z.sqlite"


def test_the_copy_for_readers_needs_no_journal_beside_it(config: Config) -> None:
    file = config.service.export
    assert file is not None
    for _ in range(2):
        export_copy(config)
    assert file.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as reader:
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert reader.execute("SELECT count(*) FROM v_run").fetchone() == (0,)


def test_a_copy_is_owed_a_day_after_the_newest_while_nothing_is_measured(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = config.service.backup
    assert backup is not None
    workers: list[Any] = []
    clock = time.time()
    monkeypatch.setattr(module.time, "time", lambda: clock)

    def start(order: Order) -> Any:
        workers.append(FakeWorker(order))
        return workers[-1]

    sent = Copies(start)
    sent.tick(backup, ORDER, is_quiet=False)
    assert workers == []
    sent.tick(backup, ORDER, is_quiet=True)
    sent.tick(backup, ORDER, is_quiet=True)
    assert len(workers) == 1, "one at a time"
    workers[0].code = 66
    sent.tick(backup, ORDER, is_quiet=True)
    assert len(workers) == 1, "one that failed is not repeated at once"
    assert sent.failures(config.service) == {
        "backup": "the child that copies ended with 66; look at its last lines in the log"
    }, "it did not say why itself"
    clock += module.AGAIN_S
    sent.tick(backup, ORDER, is_quiet=True)
    assert len(workers) == 2
    workers[1].code = 0
    made = make_copy(config)
    clock += module.AGAIN_S
    sent.tick(backup, ORDER, is_quiet=True)
    assert len(workers) == 2
    os.utime(made, (clock - module.EVERY_S, clock - module.EVERY_S))
    sent.tick(backup, ORDER, is_quiet=True)
    assert len(workers) == 3
    workers[2].silent_s = module.LONGEST_S + 1
    sent.tick(backup, ORDER, is_quiet=False)
    assert workers[2].code == -9, "one that hangs is killed"
    sent.stop()


def test_a_folder_that_cannot_be_written_is_said_with_what_the_unit_allows(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(number: int) -> Any:
        def mkdir(path: Path, **_: Any) -> None:
            raise OSError(number, os.strerror(number), str(path))

        return mkdir

    monkeypatch.setattr(module.Path, "mkdir", refuse(errno.EROFS))
    for copy in (make_copy, export_copy):
        with pytest.raises(
            StoreUnavailable, match=r"Read-only file system: .*below /var/lib/canaryd, unless ReadWrite"
        ):
            copy(config)
    monkeypatch.setattr(module.Path, "mkdir", refuse(errno.EACCES))
    with pytest.raises(StoreUnavailable, match="Permission denied; check the owner and the permissions of"):
        make_copy(config)


def test_the_child_reports_how_its_copy_went(config: Config) -> None:
    told: list[Any] = []
    backup = config.service.backup
    assert backup is not None
    backup.folder.write_text("no folder")
    assert run_errand(ORDER, config, report=told.append) == 66
    backup.folder.unlink()
    assert run_errand(ORDER, config, report=told.append) == 0
    first, second = told
    assert (first["event"], first["table"], "File exists" in first["failed"]) == ("copy", "backup", True)
    assert second == {"event": "copy", "table": "backup", "failed": None}


def test_postgres_needs_pg_dump_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIG + '[store]\nurl = "postgresql:///nosuch?host=/nowhere"\n'
    config = parse(text, path=tmp_path / "config.toml")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="pg_dump is not installed"):
        make_copy(config)
    fake = tmp_path / "pg_dump"
    fake.write_text("#!/bin/sh\necho 'pg_dump: error: no such server' >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(StoreUnavailable, match=r"\(pg_dump: error: no such server\); look at the server"):
        make_copy(config)
    export_copy(config)
    assert not (tmp_path / "export").exists(), "a server serves readers itself"
