"""Every command that a text of canaryd tells a person to type can be typed as it is printed."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from canaryd.cli import cli
from canaryd.status.remedies import REMEDIES, remedy

PACKAGE = Path(__file__).parents[2] / "canaryd"
#: Whole pages, in which a command may stand as a name only, and examples, whose files are not there and which have a
#: test of their own.
PAGES = {"document.py", "documentation.py", "manual.py"}
HINT = re.compile(r"`(canaryd [^`]*)`|(?:next|run):\s+(canaryd [^,;)\n]*)|^(canaryd .*)$")


def said(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module with their lines, docstrings left out; what is filled in reads X."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr):
                skipped.add(id(first.value))
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values),
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def hints() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name in PAGES:
            continue
        for line, text in said(ast.parse(path.read_text())):
            for found in HINT.finditer(text):
                commands = next(filter(None, found.groups()))
                where = f"{path.relative_to(PACKAGE)}:{line}"
                for command in re.split(r" && |, or ", commands):
                    if re.match(r"canaryd [a-z]", command):
                        yield where, command


def parse(command: str) -> None:
    """Parse a command as click does before it runs it."""
    name, *arguments = shlex.split(command)
    parent, node = None, cli
    while True:
        context = node.make_context(name, arguments, parent=parent)
        if not isinstance(node, click.Group):
            return
        name, node, arguments = node.resolve_command(context, [*context._protected_args, *context.args])
        parent = context


FOUND = sorted(set(hints()))


def test_the_hints_are_found() -> None:
    commands = {command for _, command in FOUND}
    assert {"canaryd db upgrade", "canaryd deviation accept --reason TEXT", "canaryd panel verify X"} <= commands


@pytest.mark.parametrize(("where", "command"), FOUND)
def test_a_hint_can_be_typed_as_it_is_printed(where: str, command: str) -> None:
    parse(command)


@pytest.mark.parametrize("reason", REMEDIES)
def test_a_remedy_can_be_typed_as_it_is_printed(reason: str) -> None:
    command = remedy(reason, series="main")
    assert command is not None
    parse(command)


@pytest.mark.parametrize("command", ["canaryd panel verify", "canaryd deviation accept --reason", "canaryd nosuch"])
def test_what_cannot_be_typed_is_seen(command: str) -> None:
    with pytest.raises(click.UsageError):
        parse(command)
