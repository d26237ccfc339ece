"""What is reported of the writes of a process: commits, and transactions that the database failed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from canaryd.daemon.writes import count_writes
from canaryd.errors import StoreUnavailable
from canaryd.store.engine import RowRefused, open_store


def test_commits_and_failures_are_reported_and_refused_rows_are_neither(tmp_path: Path) -> None:
    events: list[Mapping[str, Any]] = []
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", create=True) as store:
        count_writes(events.append, on=store._writer)
        count_writes(events.append, on=store._reader)
        store.require_writes()
        assert events == [{"event": "write", "failed": None}]
        with pytest.raises(RowRefused), store.write() as connection:
            connection.execute(text("INSERT INTO lease (series) VALUES (NULL)"))
        with pytest.raises(StoreUnavailable), store.read() as connection:
            connection.execute(text("DELETE FROM lease"))
        with store.write() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout=1")
        del events[:]
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="database is locked"):
                store.require_writes()
    (failed,) = events
    assert failed["event"] == "write"
    assert str(failed["failed"]).startswith("database is locked; another process")
