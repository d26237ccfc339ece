"""No number of the command line can be nan or infinite: every comparison would let it pass."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from canaryd.cli import cli
from canaryd.cli.numbers import FiniteRange


def floats(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Parameter]]:
    for parameter in command.params:
        if isinstance(parameter.type, click.types.FloatParamType):
            yield f"{context.command_path} {parameter.name}", parameter
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from floats(inner, click.Context(inner, info_name=name, parent=context))


FLOATS = dict(floats(cli, click.Context(cli, info_name="canaryd", **cli.context_settings)))


@pytest.mark.parametrize("name", sorted(FLOATS))
def test_every_number_is_finite_and_has_a_range(name: str) -> None:
    kind = FLOATS[name].type
    assert isinstance(kind, FiniteRange)
    assert kind.min is not None
    for value in ("nan", "inf", "-inf", "1e999", "-1"):
        with pytest.raises(click.BadParameter):
            kind.convert(value, FLOATS[name], None)


def test_the_numbers_are_found() -> None:
    assert {"canaryd compare confidence", "canaryd calibrate predict z_power"} <= FLOATS.keys()
