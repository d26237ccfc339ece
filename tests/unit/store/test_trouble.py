"""What to do about a database that cannot be used."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy.exc import OperationalError

from canaryd.store.trouble import cured, said_of

SOCKET = 'connection failed: connection to server on socket "/run/postgresql/.s.PGSQL.5432" failed: '


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("database disk image is malformed", "the file is damaged: restore a backup"),
        ("attempt to write a readonly database", "check the owner and the permissions"),
        ("unable to open database file", "check that its folder exists"),
        (SOCKET + "No such file or directory\n\tIs the server running locally?", "start the PostgreSQL server"),
        ("connection to server at 127.0.0.1, port 1 failed: Connection refused", "start the PostgreSQL server"),
        (SOCKET + 'FATAL:  database "nosuch" does not exist', "create it with `createdb`"),
        (SOCKET + 'FATAL:  role "me" does not exist', "create it with `createuser`"),
        ('FATAL:  password authentication failed for user "me"', "mend the passfile"),
        ("canceling statement due to lock timeout", "another process holds the rows"),
        ("server closed the connection unexpectedly", "look at the PostgreSQL server and the network"),
        ("terminating connection due to administrator command", "look at the PostgreSQL server"),
        ("something new.", "something new; look at the database and its log, and repeat"),
    ],
)
def test_every_trouble_says_what_to_do_in_one_sentence(text: str, cure: str) -> None:
    said = said_of(OperationalError("SELECT 1", {}, sqlite3.OperationalError(text)))
    assert cure in said
    assert said.startswith(text.partition("\n")[0].rstrip(".")[:20])
    assert "\n" not in said


@pytest.mark.parametrize("said", ["disk I/O error", "unable to open database file"])
@pytest.mark.parametrize(
    ("flag", "free", "state"),
    [(os.ST_RDONLY, 10**9, "read-only file system"), (0, 0, "the disk is full"), (0, 10**9, None)],
)
def test_the_state_of_the_disk_is_said_where_it_is_the_cause(
    said: str, flag: int, free: int, state: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(f_flag=flag, f_bavail=free, f_frsize=1)
    monkeypatch.setattr("canaryd.store.trouble.os.statvfs", lambda _: disk)
    told = cured(said, near=tmp_path / "store.db")
    assert said in told
    assert ("read-only" in told, "full" in told) == (flag != 0, free == 0)
    assert state is None or state in told
