"""A store whose server, disk, file or lock fails under its user."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, insert, text

from canaryd.errors import StoreUnavailable
from canaryd.records import Alarm
from canaryd.store import read, samples, schema
from canaryd.store.check import require_whole
from canaryd.store.engine import RowRefused, open_store, parse_url
from canaryd.store.ledger import first_difference
from canaryd.store.rows import Span
from canaryd.store.write import append_alarm, append_sample


def test_a_killed_server_connection_is_replaced(
    new_postgres_database: Callable[..., str], postgres_server: str, migrated_database: str, study: Any
) -> None:
    url = new_postgres_database(migrated_database)
    with open_store(url) as store:
        lease = study.register(store)
        (first,) = study.claim(store, lease, study.start(1))
        append_sample(store, study.sample(first, "a", 1.0), run_id=first.run_id, lease=lease)
        with store.read() as connection:
            read.all_series(connection)
        engine = create_engine(postgres_server)
        with engine.connect() as connection:
            killed = connection.execute(
                text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"),
                {"name": parse_url(url).database},
            ).all()
        engine.dispose()
        assert len(killed) == 2
        (second,) = study.claim(store, lease, study.start(2))
        append_sample(store, study.sample(second, "a", 1.0), run_id=second.run_id, lease=lease)
        with store.read() as connection:
            assert read.runs(connection, "s") == (first, second)


def test_a_connection_that_dies_in_a_transaction_stores_nothing_and_heals(
    new_postgres_database: Callable[..., str], migrated_database: str, study: Any
) -> None:
    with open_store(new_postgres_database(migrated_database)) as store:
        lease = study.register(store)
        (run,) = study.claim(store, lease, study.start())
        end = {"run_id": run.run_id, "ended_at": study.now, "outcome": "completed", "reason": ""}

        def die() -> None:
            with store.write() as connection:
                connection.execute(insert(schema.run_end).values(end))
                connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

        with pytest.raises(StoreUnavailable, match="terminating connection"):
            die()
        append_sample(store, study.sample(run, "a", 1.0), run_id=run.run_id, lease=lease)
        with store.read() as connection:
            assert read.open_runs(connection, "s") == (run,)


def test_a_full_disk_is_said_and_loses_nothing(migrated_file: Path, tmp_path: Path, study: Any) -> None:
    path = tmp_path / "canaryd.db"
    shutil.copy(migrated_file, path)
    with open_store(f"sqlite:///{path}") as store:
        lease = study.register(store)
        (run,) = study.claim(store, lease, study.start())
        append_sample(store, study.sample(run, "a", 1.0), run_id=run.run_id, lease=lease)
        with store.write() as connection:
            pages = connection.execute(text("PRAGMA page_count")).scalar_one()
            connection.execute(text(f"PRAGMA max_page_count={pages}"))
        long = "".join(map(chr, range(0x4E00, 0x9000)))
        with pytest.raises(StoreUnavailable, match="database or disk is full; free space on its disk and repeat"):
            append_sample(store, study.sample(run, "b", 1.0, text=long), run_id=run.run_id, lease=lease)
        with store.write() as connection:
            connection.execute(text("PRAGMA max_page_count=1000000"))
        append_sample(store, study.sample(run, "b", 1.0, text=long), run_id=run.run_id, lease=lease)
        with store.read() as connection:
            assert samples.tally(connection, Span("s", "old", study.day_1, study.day_1)).samples == 2


def test_a_damaged_file_is_said_by_whoever_reads_it(migrated_file: Path, tmp_path: Path, study: Any) -> None:
    path = tmp_path / "canaryd.db"
    shutil.copy(migrated_file, path)
    with open_store(f"sqlite:///{path}") as store:
        lease = study.register(store)
        (run,) = study.claim(store, lease, study.start())
        append_sample(store, study.sample(run, "a", 1.0), run_id=run.run_id, lease=lease)
        require_whole(store)
        with store.read() as connection:
            root = connection.execute(text("SELECT rootpage FROM sqlite_master WHERE name = 'sample'")).scalar_one()
            size = connection.execute(text("PRAGMA page_size")).scalar_one()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    with open_store(f"sqlite:///{path}") as store:
        with pytest.raises(StoreUnavailable, match=r"is damaged \(.+\); restore a backup"):
            require_whole(store)
        with (
            pytest.raises(StoreUnavailable, match="malformed; the file is damaged: restore a backup"),
            store.read() as connection,
        ):
            first_difference(connection, "s")


def test_a_number_too_large_for_its_column_is_a_refused_row(
    new_postgres_database: Callable[..., str], migrated_database: str, study: Any
) -> None:
    with open_store(new_postgres_database(migrated_database)) as store:
        lease = study.register(store)
        (run,) = study.claim(store, lease, study.start())
        with pytest.raises(RowRefused, match="a value is out of the range of its column"):
            append_sample(store, study.sample(run, "a", 1.0, output_tokens=2**40), run_id=run.run_id, lease=lease)


def test_a_locked_store_is_said(migrated_file: Path, tmp_path: Path, study: Any) -> None:
    path = tmp_path / "canaryd.db"
    shutil.copy(migrated_file, path)
    with open_store(f"sqlite:///{path}") as store:
        lease = study.register(store)
        with store.write() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout=1")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            StoreUnavailable, match="cannot be used: database is locked; another process has been writing"
        ):
            append_alarm(store, Alarm("s", "ok", study.now, None), lease=lease)
        other.execute("ROLLBACK")
        other.close()
        append_alarm(store, Alarm("s", "ok", study.now, None), lease=lease)
