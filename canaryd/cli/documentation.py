"""The page of all commands, printed by `python -m canaryd.cli.documentation`; a test holds docs/commands.md to it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from canaryd.cli import cli

HEAD = """\
# Commands

Printed by `python -m canaryd.cli.documentation`, and held to it by a test. Results go to standard output, messages to
standard error; `--json` gives one document with a `schema_version`, whose changes only ever add keys. Exit codes,
files and environment stand at the end of the first section.
"""


def page() -> str:
    """Return the page: every command with its help, groups before their commands."""
    context = click.Context(cli, info_name="canaryd", terminal_width=110, **cli.context_settings)
    sections = [f"\n## `{path}`\n\n```text\n{text}\n```\n" for path, text in _commands(cli, context)]
    return HEAD + "".join(sections)


def _commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            child = click.Context(inner, info_name=name, parent=context, terminal_width=110, max_content_width=110)
            yield from _commands(inner, child)


if __name__ == "__main__":
    click.echo(page(), nl=False)
