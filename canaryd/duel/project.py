"""The files of a duel: the plan, what it names, the lock that `register` writes, and the records of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canaryd.config import Credentials
from canaryd.duel.fixture import parse_anchors, parse_fixture
from canaryd.duel.judge import RUBRIC_DIGEST
from canaryd.duel.model import Entry
from canaryd.duel.record import parse_record
from canaryd.duel.registration import Duel, bind, parse_plan
from canaryd.errors import ConfigError, Locked, MeasurementRefused, UsageError
from canaryd.files import read_bytes
from canaryd.hashing import digest
from canaryd.records import JsonValue
from canaryd.stats.duel import duel_seed

LOCK_VERSION = 1


@dataclass(frozen=True, slots=True)
class DuelProject:
    """One duel on disk."""

    path: Path
    duel: Duel
    digests: dict[str, JsonValue]

    @property
    def folder(self) -> Path:
        """Where the plan stands; its relative paths begin here."""
        return self.path.parent

    @property
    def lock(self) -> Path:
        """The lock beside the plan."""
        return self.path.with_suffix(".lock")

    @property
    def record(self) -> Path:
        """The judged record of the questions."""
        return self.path.with_suffix(".judged.jsonl")

    @property
    def anchor_record(self) -> Path:
        """The judged record of the anchors."""
        return self.path.with_suffix(".anchors.jsonl")

    @property
    def credentials(self) -> Credentials:
        """Where keys may come from, with key files taken from the plan's folder."""
        known = self.duel.plan.credentials
        return Credentials(known.allow_env, {name: str(self.folder / path) for name, path in known.files.items()})


def open_duel(path: Path) -> DuelProject:
    """Return the duel of a plan.

    Raises:
        ConfigError: the plan or a file that it names cannot be read as written, or they do not fit each other.
    """
    path = path.resolve()
    data = read_bytes(path)
    plan = parse_plan(data, source=path.name)
    fixture = read_bytes(path.parent / plan.fixture)
    anchors = read_bytes(path.parent / plan.anchors) if plan.anchors else b""
    duel = bind(
        plan,
        [data, fixture, anchors],
        questions=parse_fixture(fixture, source=plan.fixture),
        anchors=parse_anchors(anchors, source=plan.anchors) if plan.anchors else (),
    )
    digests: dict[str, JsonValue] = {
        path.name: digest(data),
        plan.fixture: digest(fixture),
        "rubric": RUBRIC_DIGEST,
    }
    if plan.anchors:
        digests[plan.anchors] = digest(anchors)
    return DuelProject(path, duel, digests)


def lock_content(project: DuelProject) -> bytes:
    """Return what `register` writes: the digests, the judges as they are configured, and the seed."""
    duel = project.duel
    content: dict[str, JsonValue] = {
        "lock_version": LOCK_VERSION,
        "name": duel.plan.name,
        "duel": duel.digest,
        "files": project.digests,
        "judges": judge_configurations(duel),
        "seed": str(duel_seed([duel.digest])),
    }
    return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"


def judge_configurations(duel: Duel) -> dict[str, JsonValue]:
    """Return by judge what makes it the instrument it is: family, address and parameters, and never a key."""
    return {judge.identity: judge.configuration(RUBRIC_DIGEST) for judge in duel.plan.judges}


def register_duel(project: DuelProject) -> bool:
    """Write the lock and return whether it is new; a lock of another content is never overwritten.

    Raises:
        UsageError: another content is registered there.
    """
    content = lock_content(project)
    try:
        with project.lock.open("xb") as lock:
            lock.write(content)
    except FileExistsError:
        if project.lock.read_bytes() != content:
            raise UsageError(
                f"{project.lock}: registers another content already; a changed duel is a new one, so give it a new file"
            ) from None
        return False
    return True


def require_registered(project: DuelProject) -> None:
    """Refuse a duel that is not the registered one.

    Raises:
        UsageError: it is not registered.
        MeasurementRefused: a file was edited after it was registered; the message names the file.
    """
    if not project.lock.exists():
        raise UsageError(f"{project.path}: is not registered; run `canaryd duel register {project.path}` first")
    try:
        locked: Any = json.loads(read_bytes(project.lock))
        files: dict[str, Any] = dict(locked["files"])
    except (ValueError, TypeError, KeyError):
        raise ConfigError(f"{project.lock}: is no lock of a duel; restore the file that `register` wrote") from None
    for name in sorted(files.keys() | project.digests.keys()):
        if files.get(name) != project.digests.get(name):
            raise MeasurementRefused(
                f"{project.folder / name}: was edited after the duel was registered; restore it, or register a copy of "
                "the duel under another file name",
                reason="registration_mismatch",
            )
    if read_bytes(project.lock) != lock_content(project):
        raise MeasurementRefused(
            f"{project.lock}: is not what `register` wrote; restore it", reason="registration_mismatch"
        )


def read_record(path: Path, *, duel: str) -> list[Entry]:
    """Return the entries of a record, none where it is not begun.

    Raises:
        ConfigError: a line cannot be read as written.
        MeasurementRefused: it belongs to another registration.
    """
    return parse_record(read_bytes(path), duel=duel, source=path.name) if path.exists() else []


@contextmanager
def appending(path: Path) -> Iterator[Appender]:
    """Hold a record for appending; a line that was cut off is taken away first.

    Raises:
        Locked: another process appends to it.
    """
    import fcntl

    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked(f"{path}: another process is running this duel; wait for its end") from None
        file.seek(0)
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)
        yield Appender(file.fileno())


class Appender:
    """Appends whole lines that are on disk when it returns."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def append(self, line: bytes) -> None:
        """Write one line and wait until it is durable."""
        import os

        os.write(self._descriptor, line)
        os.fsync(self._descriptor)
