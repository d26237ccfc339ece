"""What the help of a command ends with: an example that can be typed, and the codes that it may exit with."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest

from canaryd import errors
from canaryd.cli import COMMANDS, cli
from canaryd.cli.manual import EXAMPLES, EXIT_CODES, EXITS, epilog


def leaves(command: click.Command, path: str) -> Iterator[str]:
    """Yield the path of every command that is no group."""
    if not isinstance(command, click.Group):
        yield path
        return
    for name, inner in command.commands.items():
        yield from leaves(inner, f"{path} {name}")


ROOT = click.Context(cli)
LEAVES = [path for name in COMMANDS for path in leaves(cli.get_command(ROOT, name) or cli, name)]


def test_every_command_has_an_example_and_no_other_has() -> None:
    assert sorted(EXAMPLES) == sorted(LEAVES)
    assert set(EXITS) <= set(LEAVES)


@pytest.mark.parametrize("path", LEAVES)
def test_an_example_can_be_typed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for example in EXAMPLES[path]:
        name, *arguments = shlex.split(example)
        node: click.Command = cli
        context = node.make_context(name, arguments)
        while isinstance(node, click.Group):
            name, inner, arguments = node.resolve_command(context, [*context._protected_args, *context.args])
            assert inner is not None
            assert name is not None
            # Whether a file is there is not what is asked.
            for parameter in inner.params:
                if isinstance(parameter.type, click.Path):
                    monkeypatch.setattr(parameter, "type", click.STRING)
            node, context = inner, inner.make_context(name, arguments, parent=context)
        assert context.command_path.removeprefix("canaryd ") == path


def test_every_code_is_said() -> None:
    tree = {one.exit_code for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)}
    ends = {errors.EXIT_CRASH, errors.EXIT_INTERRUPTED, errors.EXIT_PIPE}
    assert set(EXIT_CODES) == tree | ends | {0, 1, 2}
    for path, codes in EXITS.items():
        assert set(codes) <= set(EXIT_CODES), path
        assert "Exit codes:" in epilog(path)


def test_help_of_canaryd_lists_codes_files_and_environment() -> None:
    text = cli.get_help(click.Context(cli, info_name="canaryd", terminal_width=110))
    for said in ("Exit codes:", "141 ", "Files:", "/etc/canaryd/config.toml", "Environment:", "CANARYD_CONFIG"):
        assert said in text
