"""A report as Markdown; the pictures are files beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canaryd.report.document import Bullets, Document, Fold, Part, Picture, Table, Text


def as_markdown(document: Document, *, prefix: str) -> str:
    """Return the report as Markdown; picture NAME is expected in the file `<prefix>-NAME.svg`."""
    lines = [f"# {_plain(document.title)}", "", f"**{_plain(document.headline)}**", ""]
    for section in document.sections:
        lines += [f"## {_plain(section.title)}", ""]
        for part in section.parts:
            lines += [*_part(part, prefix), ""]
    return "\n".join(lines).rstrip() + "\n"


def _part(part: Part, prefix: str) -> Iterator[str]:
    if isinstance(part, Text):
        yield _plain(part.text)
    elif isinstance(part, Bullets):
        yield from (f"- {_plain(entry)}" for entry in part.entries)
    elif isinstance(part, Table):
        yield from _table(part)
    elif isinstance(part, Picture):
        yield f"![{_plain(part.caption)}]({prefix}-{part.name}.svg)"
        if part.table:
            yield ""
            yield from _table(part.table)
    else:
        yield from _fold(part, prefix)


def _fold(part: Fold, prefix: str) -> Iterator[str]:
    yield f"### {_plain(part.summary)}"
    for inner in part.parts:
        yield ""
        yield from _part(inner, prefix)


def _table(table: Table) -> Iterator[str]:
    yield f"*{_plain(table.caption)}*"
    yield ""
    yield _row(table.head)
    yield _row(["---"] * len(table.head))
    yield from (_row([_plain(cell) for cell in row]) for row in table.rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    r"""Return a text with what Markdown would read as markup escaped.

    >>> _plain("a|b *c* <d> _e_\n")
    'a\\|b \\*c\\* \\<d\\> \\_e\\_ '
    """
    escaped = "".join(f"\\{sign}" if sign in "\\`*_<>|[]#" else sign for sign in text)
    return escaped.replace("\n", " ")
