"""The options of every command, which may stand before its name or after it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import click

from canaryd.cli.manual import epilog
from canaryd.errors import UsageError
from canaryd.messages import detail, manner

#: Does what an option says, once it is given.
Obey: TypeAlias = Callable[[click.Context, Any], None]


def global_options(*, is_root: bool) -> list[click.Parameter]:
    """Return the options: those of `canaryd` itself are shown and read the environment, a command's do neither."""

    def option(*flags: str, obey: Obey, **attributes: Any) -> click.Option:
        attributes["allow_from_autoenv"] = is_root and obey is _talk  # the rest is read where it is obeyed
        attributes["callback"] = lambda context, _, value: obey(context, value) if value else None
        return click.Option(flags, expose_value=False, hidden=not is_root, **attributes)

    folder = click.Path(path_type=Path, exists=True, file_okay=False)
    return [
        option("--config", metavar="FILE", obey=_config, help="The configuration file (else $CANARYD_CONFIG)."),
        option(
            "--credentials-dir",
            metavar="DIR",
            type=folder,
            obey=_credentials_dir,
            help="A folder with one file for each key, read after $CREDENTIALS_DIRECTORY and before every other place.",
        ),
        option("-q", "--quiet", flag_value="quiet", obey=_talk, help="Only the result, and errors; no progress."),
        option(
            "-v", "--verbose", flag_value="verbose", obey=_talk, help="Say too which files are read, and each call."
        ),
        option("--no-input", flag_value="no_input", obey=_talk, help="Refuse rather than ask a person."),
        option("--no-color", is_flag=True, obey=_no_color, help="No colours (as $NO_COLOR or $CANARYD_NO_COLOR)."),
    ]


def in_place(command: click.Command, path: str) -> click.Command:
    """Return a command, called so, that knows the options of every command and what its help ends with.

    The commands of a group are put in place with it. It happens once.
    """
    if any(parameter.name == "no_input" for parameter in command.params):
        return command
    command.params += global_options(is_root=False)
    command.epilog = epilog(path)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            in_place(inner, f"{path} {name}")
    return command


def _config(context: click.Context, value: str) -> None:
    context.obj = value


def _credentials_dir(_context: click.Context, value: Path) -> None:
    # In the environment, where the daemon's children and every look-up of a key find it.
    os.environ["CANARYD_CREDENTIALS_DIR"] = str(value.resolve())


def _no_color(_context: click.Context, _value: bool) -> None:
    os.environ["CANARYD_NO_COLOR"] = "1"


def _talk(_context: click.Context, manner_of_it: str) -> None:
    setattr(manner(), manner_of_it, True)
    if manner().quiet and manner().verbose:
        raise UsageError("--quiet and --verbose contradict each other; leave one out")
    if manner_of_it == "verbose":
        _tell_calls()


def _tell_calls() -> None:
    """Say of each call to a provider how it went."""
    from canaryd.providers.base import Provider, ProviderError
    from canaryd.records import Ask, Reply
    from canaryd.runner.calls import call

    asked = call.get()

    async def told(ask: Ask, provider: Provider) -> Reply:
        began_s = time.monotonic()
        how = "no answer"
        try:
            reply = await asked(ask, provider)
            how = f"answered, {reply.stop}"
        except ProviderError as error:
            how = error.kind
            raise
        finally:
            detail(f"{ask.arm} {ask.item_id} #{ask.replicate}: {how}, {time.monotonic() - began_s:.1f} s")
        return reply

    call.set(told)
