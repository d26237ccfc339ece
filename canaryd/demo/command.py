"""`canaryd demo`: the whole instrument in two minutes, on this machine alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click
from click.core import ParameterSource

from canaryd.config import Config
from canaryd.demo.plan import FULL, QUICK, DemoPlan
from canaryd.errors import EXIT_INTERRUPTED, UsageError
from canaryd.messages import progress
from canaryd.status import Status, as_text, check_status, read_status


@click.command()
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), help="Where the project is written (default ./demo-N)."
)
@click.option("--no-drop", is_flag=True, help="Play the null: nothing changes.")
@click.option("--quick", is_flag=True, help="A shortened play: 24 items, 18 days.")
@click.option(
    "--seed", type=click.IntRange(0, 2**31), default=FULL.seed, show_default=True, help="Of the simulated models."
)
@click.option(
    "--port", type=click.IntRange(1024, 65535), default=FULL.port, show_default=True, help="Of the model server."
)
@click.option("--resume", is_flag=True, help="Go on with the play in --dir, as it was begun.")
def demo(folder: Path | None, no_drop: bool, quick: bool, seed: int, port: int, resume: bool) -> None:
    """Play 60 days of a tracked and a control model on a loopback server; on day 31 the tracked one gets worse.

    Nothing is stubbed but the models and the calendar: the official SDK asks over HTTP, the graders grade, the store
    keeps every answer, and the registered rule decides.
    """
    from canaryd.demo.play import open_project, stored_plan, write_project

    chosen = dataclasses.replace(QUICK if quick else FULL, seed=seed, port=port)
    if no_drop:
        chosen = dataclasses.replace(chosen, drop=0.0, token_factor=1.0)
    if resume:
        plan = stored_plan(_existing(folder))
        _require_same(plan, chosen)
        config = open_project(_existing(folder))
    else:
        plan, config = chosen, write_project(chosen, folder or _free_folder(Path.cwd()))
    click.echo(_introduction(plan, config))
    try:
        _play(plan, config)
    except KeyboardInterrupt:
        again = f"canaryd demo --resume --dir {config.path.parent}"
        click.echo(f"\ninterrupted; what was stored stays, go on with: {again}", err=True)
        click.get_current_context().exit(EXIT_INTERRUPTED)
    _conclude(config, read_status(config))


def _play(plan: DemoPlan, config: Config) -> None:
    from canaryd.demo.play import play

    with progress("days", length=plan.days) as reached:

        def on_day(day: int) -> None:
            reached(day, plan.days)
            if day in (plan.baseline_days, plan.baseline_days + 2 * plan.window_days, plan.days):
                click.echo(f"\n\nstatus after day {day}:\n\n{as_text(read_status(config))}\n")

        play(plan, config, on_day=on_day)


def _require_same(plan: DemoPlan, chosen: DemoPlan) -> None:
    """Refuse options, given beside --resume, that contradict the play that is to go on."""
    context = click.get_current_context()
    given = [
        name
        for name in ("quick", "no_drop", "seed", "port")
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    ]
    if given and plan != chosen:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(f"{options}: the play to go on with was begun otherwise; leave them out beside --resume")


def _existing(folder: Path | None) -> Path:
    if folder is None:
        raise UsageError("--resume needs --dir, the folder of the play that was cut off")
    return folder


def _free_folder(parent: Path) -> Path:
    numbers = range(1, 10_000)
    return next(folder for n in numbers if not (folder := parent / f"demo-{n}").exists())


def _introduction(plan: DemoPlan, config: Config) -> str:
    change = (
        f"on day {plan.change_day} the tracked model loses {100 * plan.drop:.0f} points of score and "
        f"{100 * (1 - plan.token_factor):.0f} % of its tokens"
        if plan.drop
        else "nothing changes"
    )
    return (
        f"{plan.days} days, {plan.items} items, two models on 127.0.0.1:{plan.port}; {change}\n"
        f"baseline days 1-{plan.baseline_days}, then {plan.windows} windows of {plan.window_days} days; "
        f"project in {config.path.parent}"
    )


def _conclude(config: Config, status: Status) -> None:
    from canaryd.report.render import load_report, write_report
    from canaryd.store.engine import open_store

    series, folder = config.series[0], config.path.parent
    headline = check_status(status).series[0].sentence
    with open_store(config.store_url) as store:
        picture, page = write_report(store, series.name, headline=headline, folder=folder)
        with store.read() as connection:
            events = load_report(connection, series.name, headline=headline).events
    click.echo(f"\n{as_text(status)}\n\n{headline}\n")
    for event in events:
        click.echo(f"  known on {event.day}: {event.sentence}")
    click.echo(f"\nstore    {folder / 'canaryd.db'}\npicture  {picture}\npage     {page}")
    click.echo(f"\nlook around:  canaryd --config {config.path} status")
