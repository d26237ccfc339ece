"""What to do about a database that cannot be used: a sentence for each thing that drivers say of it."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.exc import DBAPIError

_READ_ONLY = (
    "mount it writable, or name another place; under systemd the unit may write only below /var/lib/canaryd, unless "
    "ReadWritePaths= names the folder (`systemctl edit canaryd`)"
)
#: What a driver's text holds, in small letters, and what to do then; the first that is found counts.
_CURES = (
    ("the disk is full", "free space on it and repeat; nothing is half stored"),
    ("disk is full", "free space on its disk and repeat; nothing is half stored"),
    ("no space left", "free space on the server's disk and repeat; nothing is half stored"),
    ("malformed", "the file is damaged: restore a backup"),
    ("file is not a database", "the file is damaged or of another program: restore a backup, or mend store.url"),
    ("read-only file system", _READ_ONLY),
    ("readonly database", "check the owner and the permissions of the file and of its folder"),
    ("unable to open database file", "check that its folder exists, its owner and its permissions"),
    ("database is locked", "another process has been writing for more than 5 s; repeat, and look what it is"),
    ("disk i/o error", "look at the disk and the system's log, and restore a backup if it is damaged"),
    ("connection refused", "start the PostgreSQL server, or mend store.url"),
    ("no such file or directory", "start the PostgreSQL server, or mend the host in store.url"),
    ("name or service not known", "mend the host in store.url"),
    ("failed to resolve", "mend the host in store.url"),
    ("password authentication failed", "mend the passfile ($PGPASSFILE), or use peer authentication"),
    ("no password supplied", "give one in a passfile ($PGPASSFILE), or use peer authentication"),
    ("peer authentication failed", "run canaryd as the system user of that role, or name another in store.url"),
    ('role "', "create it with `createuser`, or name another in store.url"),
    ('database "', "create it with `createdb`, or name another in store.url"),
    ("must be owner", "run it as the owner of the store's tables, or name that role in store.url"),
    ("permission denied", "grant the role what canaryd needs, or name another in store.url"),
    ("read-only transaction", "the server takes no writes; look whether it is a replica"),
    ("timeout", "the server is too slow or another process holds the rows; repeat, and look at the server"),
    ("connection", "look at the PostgreSQL server and the network to it, and repeat"),
)
_OTHERWISE = "look at the database and its log, and repeat"


#: With less free space than this no run can be stored, and with an eighth of it SQLite cannot even begin.
_FULL_BYTES = 1024 * 1024


def said_of(error: DBAPIError, *, near: Path | None = None) -> str:
    """Return the first line of what a driver says, and what to do about it; `near` is the file of a SQLite store."""
    return cured(str(error.orig), near=near)


def cured(said: str, *, near: Path | None = None) -> str:
    """Return the first line of what was said of a database, with the state of its disk where that is the cause."""
    line = said.strip().partition("\n")[0].rstrip(".:; ")
    state = None if near is None else _disk_state(near.absolute().parent, said=line.lower())
    if state is not None:
        line = f"{state} ({line})"
    lowered = line.lower()
    return f"{line}; {next((cure for words, cure in _CURES if words in lowered), _OTHERWISE)}"


def is_read_only(folder: Path) -> bool:
    """Return whether a folder is on a file system that is mounted read-only."""
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def full_disk(folder: Path) -> str | None:
    """Return that the disk of a folder is full, None where it has room."""
    disk = os.statvfs(folder)
    return f"the disk is full at {folder}" if disk.f_bavail * disk.f_frsize < _FULL_BYTES else None


def _disk_state(folder: Path, *, said: str) -> str | None:
    """Return that the disk is full or read-only; SQLite says only that it could not do what it does with its files."""
    if not folder.is_dir() or not any(words in said for words in ("disk i/o error", "unable to open", "readonly")):
        return None
    if is_read_only(folder):
        return f"{folder} is on a read-only file system"
    return full_disk(folder)
