"""`canaryd status` and `canaryd check`: from the store alone, with what a running daemon adds."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from functools import partial

import click

from canaryd.cli.context import load_config
from canaryd.cli.numbers import FiniteRange
from canaryd.colours import has_colours
from canaryd.errors import EXIT_INTERRUPTED, CanarydError
from canaryd.status import as_text, ask_daemon, check_status, read_status, with_invalid_text

_COLOURS = {"●": "green", "!": "yellow", "×": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document with a schema_version.")
@click.option("--series", "series_name", help="Only this series.")
@click.option(
    "--include-invalid",
    is_flag=True,
    help="Say too what the latest decided window would have come to with invalid samples counted.",
)
@click.option(
    "--watch",
    "every_s",
    type=FiniteRange(1, 3600),
    is_flag=False,
    flag_value=5,
    metavar="[SECONDS]",
    help="Say it again every so many seconds (5), until interrupted.",
)
@click.pass_obj
def status(
    config_file: str | None, as_json: bool, series_name: str | None, include_invalid: bool, every_s: float | None
) -> None:
    """Say what is known of every series, from the store; it works while nothing else runs.

    The daemon that listens at `listen` under [daemon] of the configuration is asked too, for 2 s: since when it runs,
    how far a run is, when the next one is. Without an answer that is said to be unknown. While it watches, a store
    that cannot be read is said and asked again; Ctrl-C ends it with 130.

    Exits 0 when it could report; the verdict as an exit code is `canaryd check`. The text may change at any time, a
    script reads --json.
    """
    say = partial(_said, config_file, series_name, as_json=as_json, include_invalid=include_invalid)
    if every_s is None:
        _echo(say())
    else:
        _watch(say, every_s=every_s)


def _watch(say: Callable[[], str], *, every_s: float) -> None:
    """Say it again and again until Ctrl-C; what cannot be read later than at the beginning is said in its place."""
    try:
        said, is_error = say(), False
        while True:
            if sys.stdout.isatty():
                click.clear()
            _echo(said, err=is_error)
            sys.stdout.flush()
            time.sleep(every_s)
            try:
                said, is_error = say(), False
            except CanarydError as error:
                said, is_error = f"canaryd: {error}", True
    except KeyboardInterrupt:
        click.echo("\ncanaryd: not watched any more", err=True)
        click.get_current_context().exit(EXIT_INTERRUPTED)


def _echo(text: str, *, err: bool = False) -> None:
    """Print a status, the marks of its lines coloured where the stream gets colours."""
    colours = has_colours(sys.stderr if err else sys.stdout, os.environ)
    if colours:
        text = re.sub(f"(?m)^[{''.join(_COLOURS)}](?= )", lambda mark: click.style(mark[0], fg=_COLOURS[mark[0]]), text)
    click.echo(text, err=err, color=colours)


def _said(config_file: str | None, series_name: str | None, *, as_json: bool, include_invalid: bool) -> str:
    config = load_config(config_file)
    known = read_status(config, series_name)
    live = ask_daemon(config.service.listen, store=known.store)
    document, text = known.to_json(), as_text(known, live)
    document["daemon"] = live.to_json()
    document["live"] = {series.name: live.series_json(series.name) for series in known.series}
    if include_invalid:
        # It recomputes, and so imports the statistics, which a plain status never waits for.
        from canaryd.status.with_invalid import read_with_invalid

        found = read_with_invalid(config, [series.name for series in known.series])
        document["with_invalid"] = {"stored": False, "series": [one.to_json() for one in found]}
        text = f"{text}\n\n{with_invalid_text(found)}"
    return json.dumps(document, indent=1) if as_json else text


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document with a schema_version.")
@click.option("--series", "series_name", help="Only this series.")
@click.pass_obj
def check(config_file: str | None, as_json: bool, series_name: str | None) -> None:
    """Exit 0 when no change is detected, 1 when one is declared, 2 when nothing can be judged.

    2 is also what a series gets whose last whole day is older than 26 h, or which has no two decided windows yet.
    """
    checked = check_status(read_status(load_config(config_file), series_name))
    if as_json:
        click.echo(json.dumps(checked.to_json(), indent=1))
    else:
        for series in checked.series:
            click.echo(series.sentence)
    click.get_current_context().exit(checked.exit_code)
