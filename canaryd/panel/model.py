"""What a panel is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from canaryd.records import Grade, Item, JsonValue


class Grading(Protocol):
    """What a panel asks of the graders."""

    def complaint(self, item: Item) -> str | None:
        """Return why the item's grader cannot judge it, or None."""

    def digest(self, name: str) -> str:
        """Return a grader's digest."""

    def grade(self, item: Item, text: str) -> Grade:
        """Return the grade of a reply."""

    def job(self, item: Item, text: str) -> object | None:
        """Return the outside work a reply needs before it can be graded, or None."""

    def right_reply(self, item: Item) -> str:
        """Return a reply that scores 1."""


@dataclass(frozen=True, slots=True)
class Row:
    """One item's line: its number, the JSON as written, and the item it describes."""

    line: int
    raw: Mapping[str, JsonValue]
    item: Item


@dataclass(frozen=True, slots=True)
class Lock:
    """The digests of a panel's parts; `digest` covers them all and the order of the items."""

    name: str
    version: str
    digest: str
    header: str
    system: str
    items: Mapping[str, str]
    graders: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Panel:
    """A parsed panel. `lines` says on which line of the file at `path` each item stands."""

    path: str
    name: str
    version: str
    licence: str
    canary: str
    items: tuple[Item, ...]
    system: str
    lock: Lock
    lines: Mapping[str, int]

    @property
    def measured(self) -> tuple[Item, ...]:
        """The items that a grader of canaryd measures: no sentinel, and none that a judge grades."""
        return tuple(item for item in self.items if not item.sentinel and not item.is_judged)

    @property
    def digest(self) -> str:
        """The digest of the whole panel: header and items, system prompt, used graders."""
        return self.lock.digest


def system_path(path: str) -> str:
    """Return where the system prompt of the panel at a path lies.

    >>> system_path("panel/starter.jsonl")
    'panel/starter.system.txt'
    """
    return str(Path(path).with_suffix(".system.txt"))


def lock_path(path: str) -> str:
    """Return where the lock of the panel at a path lies.

    >>> lock_path("panel/starter.jsonl")
    'panel/starter.lock'
    """
    return str(Path(path).with_suffix(".lock"))
