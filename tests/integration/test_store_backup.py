"""A copy of a PostgreSQL store, made while it is written, is restored into another database and is the store again."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from canaryd.errors import StoreUnavailable, UsageError
from canaryd.records import RunEnd
from canaryd.store import samples
from canaryd.store.backup import dump_postgres
from canaryd.store.engine import open_store, parse_url
from canaryd.store.ledger import first_difference
from canaryd.store.rows import Span
from canaryd.store.write import append_samples, end_run


def test_a_dump_made_while_the_store_is_written_is_restored_whole(
    new_postgres_database: Callable[..., str],
    migrated_database: str,
    installed: Callable[..., str],
    tmp_path: Path,
    study: Any,
) -> None:
    installed("pg_dump")
    restore = installed("pg_restore")
    url, out = new_postgres_database(migrated_database), tmp_path / "store.dump"
    with open_store(url) as store:
        lease = study.register(store)
        (run,) = study.claim(store, lease, study.start(1))
        append_samples(store, [study.sample(run, "a", 1.0, text="\ud800 said")], run_id=run.run_id, lease=lease)
        end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lease)
        (later,) = study.claim(store, lease, study.start(2))
        enough = threading.Event()

        def write() -> None:
            for n in range(200):
                said = [study.sample(later, item, 1.0, replicate=n, text="x" * 500) for item in "abc"]
                append_samples(store, said, run_id=later.run_id, lease=lease)
                enough.set()

        writer = threading.Thread(target=write)
        writer.start()
        enough.wait()
        dump_postgres(parse_url(url), out)
        writer.join()
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    restored = new_postgres_database()
    target = make_url(restored).set(drivername="postgresql").render_as_string(hide_password=False)
    subprocess.run([restore, "--no-owner", f"--dbname={target}", out], check=True, capture_output=True)
    with open_store(restored) as store, store.read() as connection:
        assert first_difference(connection, "s") is None
        (said,) = samples.samples(connection, Span("s", "old", study.day_1, study.day_1))
        assert said.text == "\ud800 said"
        again = samples.tally(connection, Span("s", "old", study.day_1.replace(day=2), study.day_1.replace(day=2)))
        assert again.samples % 3 == 0, "a transaction is copied whole or not at all"


def test_without_pg_dump_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(UsageError, match="pg_dump is not installed"):
        dump_postgres(parse_url("postgresql:///nowhere"), tmp_path / "store.dump")


def test_a_dump_that_fails_leaves_no_file(tmp_path: Path) -> None:
    if shutil.which("pg_dump") is None:
        pytest.skip("pg_dump is not installed")
    with pytest.raises(StoreUnavailable, match=r"was not copied to .*; look at the server and repeat"):
        dump_postgres(parse_url(f"postgresql:///nowhere?host={tmp_path}"), tmp_path / "store.dump")
    assert list(tmp_path.iterdir()) == []
