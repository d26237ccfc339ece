"""What to do about a database that cannot be used: a sentence for each thing that drivers say of it."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

#: What a driver's text holds, in small letters, and what to do then; the first that is found counts.
_CURES = (
    ("disk is full", "free space on its disk and repeat; nothing is half stored"),
    ("no space left", "free space on the server's disk and repeat; nothing is half stored"),
    ("malformed", "the file is damaged: run `canaryd db check`, and restore a backup"),
    ("file is not a database", "the file is damaged or of another program: restore a backup, or mend store.url"),
    ("readonly database", "check the owner and the permissions of the file and of its folder"),
    ("unable to open database file", "check that its folder exists, its owner and its permissions"),
    ("database is locked", "another process has been writing for more than 5 s; repeat, and look what it is"),
    ("disk i/o error", "look at the disk and the system's log, and run `canaryd db check`"),
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


def said_of(error: DBAPIError) -> str:
    """Return the first line of what a driver says, and what to do about it."""
    line = str(error.orig).strip().partition("\n")[0].rstrip(".:; ")
    lowered = line.lower()
    return f"{line}; {next((cure for words, cure in _CURES if words in lowered), _OTHERWISE)}"
