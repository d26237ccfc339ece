"""Opening and sharing a store, and what outlives a kill."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text

from canaryd.errors import StoreUnavailable
from canaryd.store import read, samples
from canaryd.store.engine import Store, open_store, parse_url, revision
from canaryd.store.lease import LeasePolicy, acquire_lease
from canaryd.store.migrate import downgrade, rehearse, upgrade
from canaryd.store.process import is_alive
from canaryd.store.rows import Span
from canaryd.store.schema import REVISIONS
from canaryd.store.write import append_sample, register_series


def test_a_missing_store_is_not_made(empty_store_url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"does not exist; create it with `canaryd db upgrade`"):
        open_store(empty_store_url)
    assert revision(parse_url(empty_store_url)) is None


def test_a_missing_store_is_made_when_asked(empty_store_url: str, study: Any) -> None:
    with open_store(empty_store_url, create=True) as store:
        study.register(store)
    with open_store(empty_store_url, create=True) as store, store.read() as connection:
        assert [each.name for each in read.all_series(connection)] == ["s"]


@pytest.mark.parametrize(
    ("found", "cure"), [("0000", "written by a newer canaryd"), (REVISIONS[0], "run `canaryd db upgrade`")]
)
def test_a_schema_of_another_time_is_refused(
    store_url: str, monkeypatch: pytest.MonkeyPatch, found: str, cure: str
) -> None:
    monkeypatch.setattr("canaryd.store.engine.REVISIONS", (REVISIONS[0], "9999"))
    engine = create_engine(parse_url(store_url))
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{found}'"))
    engine.dispose()
    with pytest.raises(StoreUnavailable, match=f"has schema {found}, this canaryd reads 9999; .*{cure}"):
        open_store(store_url, create=True)


def test_a_place_that_holds_no_file_and_a_store_that_lost_its_schema_are_told_apart(
    migrated_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(StoreUnavailable, match="is a folder; name a file in store"):
        open_store(f"sqlite:///{tmp_path}", create=True)
    broken = tmp_path / "broken.db"
    shutil.copy(migrated_file, broken)
    connection = sqlite3.connect(broken)
    connection.execute("DROP TABLE alembic_version")
    connection.commit()
    connection.close()
    with pytest.raises(StoreUnavailable, match="lost the table of its schema; restore a backup"):
        open_store(f"sqlite:///{broken}", create=True)


def test_an_empty_file_and_a_store_without_its_revision_point_to_a_backup(migrated_file: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(StoreUnavailable, match="is an empty file; restore a backup"):
        open_store(f"sqlite:///{empty}")
    broken = tmp_path / "broken.db"
    shutil.copy(migrated_file, broken)
    with sqlite3.connect(broken) as connection:
        connection.execute("DELETE FROM alembic_version")
    connection.close()
    with pytest.raises(StoreUnavailable, match="lost the number of its schema; restore a backup"):
        open_store(f"sqlite:///{broken}", create=True)


def test_a_store_on_a_read_only_disk_is_read(
    migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    shutil.copy(migrated_file, path)
    monkeypatch.setattr("canaryd.store.engine.is_read_only", lambda _: True)
    with open_store(f"sqlite:///{path}") as store, store.read() as connection:
        assert read.all_series(connection) == ()
        assert [each.name for each in tmp_path.iterdir()] == ["store.db"]


def test_a_store_taken_back_to_nothing_does_not_exist(store_url: str) -> None:
    downgrade(store_url, to="base")
    with pytest.raises(StoreUnavailable):
        open_store(store_url)


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (x)")
    connection.close()
    with pytest.raises(StoreUnavailable, match="is a SQLite file of another program"):
        open_store(f"sqlite:///{path}", create=True)
    path.write_bytes(b"not a database, but long enough to look like one" * 40)
    with pytest.raises(
        StoreUnavailable, match="cannot be opened: file is not a database; the file is damaged or of another"
    ):
        open_store(f"sqlite:///{path}")


def test_an_unreachable_server_is_said_without_the_password() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be opened") as refusal:
        open_store("postgresql://canaryd:hunter2@/canaryd?host=/nonexistent")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("is_emptied", [False, True])
def test_a_store_that_was_taken_away_while_it_was_open_is_never_made_anew(
    migrated_file: Path, tmp_path: Path, study: Any, is_emptied: bool
) -> None:
    path, moved = tmp_path / "canaryd.db", tmp_path / "moved.db"
    shutil.copy(migrated_file, path)
    url = f"sqlite:///{path}"
    with open_store(url) as store:
        study.register(store)
        path.rename(moved)
        if is_emptied:
            path.touch()
        log = path.with_name("canaryd.db-wal").read_bytes()
        assert log
        for refused in (
            lambda: open_store(url),
            lambda: open_store(url, create=True),
            lambda: upgrade(url),
            lambda: rehearse(url),
            lambda: downgrade(url, to="base"),
        ):
            with pytest.raises(StoreUnavailable, match=r"while it was open: .*put the file back") as refusal:
                refused()
            assert "create it" not in str(refusal.value)
        assert path.exists() == is_emptied
        assert path.with_name("canaryd.db-wal").read_bytes() == log
        moved.replace(path)
    with open_store(url) as store, store.read() as connection:
        assert [each.name for each in read.all_series(connection)] == ["s"]


def test_a_reader_cannot_write(store: Store, study: Any) -> None:
    study.register(store)
    with pytest.raises(StoreUnavailable, match=r"(?i)read-?only"), store.read() as connection:
        connection.execute(text("DELETE FROM lease"))


def test_whether_a_store_takes_writes_is_tried_and_changes_nothing(store: Store, study: Any) -> None:
    register_series(store, study.plan())
    with store.read() as connection:
        before = read.all_series(connection)
    committed: list[str] = []
    event.listen(store._writer, "commit", lambda _: committed.append("yes"))
    store.require_writes()
    assert committed == ["yes"]
    with store.read() as connection:
        assert read.all_series(connection) == before


def test_a_store_that_takes_no_writes_says_so(migrated_file: Path) -> None:
    with open_store(f"sqlite:///{migrated_file}") as store:
        with store.write() as connection:
            connection.exec_driver_sql("PRAGMA query_only=ON")
        with pytest.raises(StoreUnavailable, match="readonly database"):
            store.require_writes()


def test_a_reader_sees_one_state_while_answers_are_written(store: Store, study: Any) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    span = Span("s", "old", study.day_1, study.day_1)
    with store.read() as reading:
        assert samples.tally(reading, span).samples == 0
        for replicate in range(8):
            append_sample(store, study.sample(run, "a", 1.0, replicate=replicate), run_id=run.run_id, lease=lease)
            with store.read() as exporter:
                assert samples.tally(exporter, span).samples == replicate + 1
        assert samples.tally(reading, span).samples == 0


def test_threads_share_one_store(store: Store, study: Any) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    failures: list[Exception] = []

    def write(worker: int) -> None:
        for i in range(10):
            try:
                sample = study.sample(run, "a", 1.0, replicate=worker * 10 + i)
                append_sample(store, sample, run_id=run.run_id, lease=lease)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with store.read() as connection:
        assert samples.tally(connection, Span("s", "old", study.day_1, study.day_1)).samples == 40


def test_sqlite_is_set_up_to_lose_nothing(migrated_file: Path) -> None:
    with open_store(f"sqlite:///{migrated_file}") as store, store.write() as connection:
        settings = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
        tables = connection.execute(text("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'")).all()
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000}
    loose = {name for name, strict in tables if not strict}
    assert {name for name in loose if not name.startswith("v_")} <= {
        "alembic_version",
        "sqlite_schema",
        "sqlite_sequence",
    }


KILLED = """
import sys
from datetime import UTC, datetime, timedelta
from canaryd.records import *
from canaryd.store.engine import open_store
from canaryd.store.lease import LeasePolicy, acquire_lease
from canaryd.store.process import is_alive, this_process
from canaryd.store.write import append_sample, claim_slot

now = datetime(2030, 1, 1, 3, tzinfo=UTC)
store = open_store(sys.argv[1])
lease = acquire_lease(
    store, "s", holder=this_process(), now=now, policy=LeasePolicy(timedelta(hours=9), is_alive=is_alive)
)
starts = [RunStart("s", arm, now.date(), 1, now, now, sys.argv[2], "r", "f") for arm in ("old", "ctl")]
old, ctl = claim_slot(store, starts, lease=lease, epoch=1)
for replicate in range(100_000):
    key = SampleKey("s", "old", now.date(), "a", replicate)
    grade = Grade(1.0, True, True)
    append_sample(store, Sample(key, grade, Reply("x", "stop"), now, now), run_id=old.run_id, lease=lease)
    print(replicate, flush=True)
"""


@pytest.mark.parametrize("answers", [0, 7])
def test_what_was_acknowledged_survives_a_kill(store_url: str, study: Any, answers: int) -> None:
    with open_store(store_url) as store:
        register_series(store, study.plan())
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, store_url, study.plan().panel.digest], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(answers + 1)]
        child.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in child.stdout.read().splitlines() if line.strip()]
        child.stdout.close()
        child.wait()
        policy = LeasePolicy(study.policy.ttl, is_alive=is_alive)
        successor = acquire_lease(store, "s", holder=study.holder(), now=study.now, policy=policy)
        assert successor.term == 2
        with store.read() as connection:
            assert [run.start.arm for run in read.open_runs(connection, "s")] == ["old", "ctl"]
            stored = samples.final_samples(connection, "s", arm="old", slot_date=study.day_1)
        assert {key.replicate for key in stored} >= set(acknowledged)
        assert len(stored) <= len(acknowledged) + 1


def test_opening_a_store_imports_nothing_heavy(store_url: str) -> None:
    code = (
        "import sys; from canaryd.store import read, samples; from canaryd.store.engine import open_store;"
        "store = open_store(sys.argv[1]);\nwith store.read() as c: print(read.all_series(c))\n"
        "store.close(); heavy = {'alembic', 'numpy', 'scipy', 'openai', 'anthropic', 'pandas'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code, store_url], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("()\n", "")
