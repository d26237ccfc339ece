"""`canaryd validate`: does the instrument see a change, and none where there is none?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from canaryd.cli.context import load_config
from canaryd.errors import MeasurementRefused
from canaryd.messages import progress
from canaryd.wording import counted

if TYPE_CHECKING:
    from canaryd.studies.laboratory import Laboratory

_SERIES = click.option("--series", "series_name", help="Which series, where there are several.")


@click.group()
def validate() -> None:
    """Hold the instrument against itself: A/A across baseline days, and changes that it must see."""


@validate.command("run")
@_SERIES
@click.pass_obj
def run_command(config_file: str | None, series_name: str | None) -> None:
    """Ask today's session: the tracked arm and every registered positive control, interleaved.

    A session that was cut off goes on where it stopped; one that is whole is left alone. Its samples never enter the
    series.
    """
    from canaryd.studies.validate import run_session

    with _laboratory(config_file, series_name) as lab:
        with progress("validating") as on_landed:
            collected = run_session(lab, on_landed=on_landed)
        name, today = lab.series.name, lab.today
    if collected.missing:
        failed = ", ".join(f"{count} {kind}" for kind, count in collected.failures.items())
        raise MeasurementRefused(
            f"{counted(collected.missing, 'sample')} of the session of {today} missing "
            f"({collected.stopped or failed}); "
            "run the same command again today to ask them",
            reason="budget" if collected.stopped else "incomplete",
        )
    landed = f"{counted(collected.landed, 'sample')} asked" if collected.landed else "every sample was there"
    click.echo(f"{name} validation session {today}: {landed}; read it with `canaryd validate report`")


@validate.command("report")
@_SERIES
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def report_command(config_file: str | None, series_name: str | None, as_json: bool) -> None:
    """Hold what is stored against the registered criterion: exit 0 passed, 1 failed, 2 not judged yet."""
    from canaryd.studies.validate import validation_of
    from canaryd.studies.validate_text import validation_text

    with _laboratory(config_file, series_name) as lab:
        report = validation_of(lab).to_json()
    click.echo(json.dumps(report, indent=1) if as_json else validation_text(report))
    passed = report["passed"]
    click.get_current_context().exit(2 if passed is None else int(not passed))


@contextmanager
def _laboratory(config_file: str | None, series_name: str | None) -> Iterator[Laboratory]:
    from canaryd.studies.laboratory import laboratory

    config = load_config(config_file)
    with laboratory(config, config.one_series(series_name)) as lab:
        yield lab
