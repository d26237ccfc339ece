"""What a command says on standard error beside its result, as loudly as it was told to, and what it asks a person."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from canaryd.errors import UsageError


@dataclass(slots=True)
class Manner:
    """How a command is to talk: --quiet, --verbose and --no-input."""

    quiet: bool = False
    verbose: bool = False
    no_input: bool = False


def manner() -> Manner:
    """Return how the command under way is to talk, which it shares with the groups it is in."""
    context = click.get_current_context(silent=True)
    found = Manner() if context is None else context.meta.setdefault(__name__, Manner())
    assert isinstance(found, Manner)
    return found


def say(text: str) -> None:
    """Say something that is neither the result nor an error."""
    if not manner().quiet:
        click.echo(text, err=True)


def detail(text: str) -> None:
    """Say something that only --verbose wants to hear."""
    if manner().verbose:
        click.echo(f"canaryd: {text}", err=True)


@contextmanager
def progress(label: str, *, length: int = 1) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error, on a terminal only and not to the quiet; yield what tells it how far it is."""
    hidden = manner().quiet or not sys.stderr.isatty()
    with click.progressbar(length=length, label=label, file=sys.stderr, show_pos=True, hidden=hidden) as bar:

        def reached(done: int, of: int) -> None:
            bar.length = of
            bar.update(done - bar.pos)

        yield reached


def require_consent(act: str, *, yes: bool) -> None:
    """Ask a person before something is gone for good, unless `yes` says it already.

    Raises:
        UsageError: the answer is no, or nobody can be asked: no terminal, or --no-input.
    """
    if yes:
        return
    if manner().no_input or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"would {act} for good, and nobody is there to be asked; say --yes to do it")
    if not click.confirm(f"{act} for good?", err=True):
        raise UsageError(f"did not {act}: the answer was no")
