"""What to do about a database that cannot be used."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy.exc import OperationalError

from canaryd.store.trouble import said_of

SOCKET = 'connection failed: connection to server on socket "/run/postgresql/.s.PGSQL.5432" failed: '


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("database disk image is malformed", "run `canaryd db check`, and restore a backup"),
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
