"""A report as parts without a form: the page and the Markdown are written from the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    entries: Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first cell of a row names the row."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG with what it shows in words; its figures stand in `table`, or in a table next to it."""

    name: str
    caption: str
    svg: bytes
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Fold:
    """Parts that most readers skip."""

    summary: str
    parts: Sequence[Text | Bullets | Table]


Part: TypeAlias = "Text | Bullets | Table | Picture | Fold"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its parts."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report: the headline is one sentence whatever the result."""

    title: str
    headline: str
    sections: Sequence[Section]

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Every picture, in order."""
        return tuple(part for section in self.sections for part in section.parts if isinstance(part, Picture))
