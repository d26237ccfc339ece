"""`canaryd quarantine`: what was measured in a slot is set aside by a person, with a reason; nothing is deleted."""

from __future__ import annotations

from datetime import datetime

import click

from canaryd.cli.context import load_config
from canaryd.errors import Locked, UsageError
from canaryd.wording import decided


@click.command()
@click.option("--slot", type=click.DateTime(["%Y-%m-%d"]), required=True, metavar="DATE", help="The slot to set aside.")
@click.option("--arm", help="Only this arm.")
@click.option("--reason", required=True, help="Why; it is stored and exported.")
@click.option("--series", "series_name", help="Which series, where there are several.")
@click.pass_obj
def quarantine(config_file: str | None, slot: datetime, arm: str | None, reason: str, series_name: str | None) -> None:
    """Take the runs of a slot out of the analysis; verdicts that rest on them are decided anew and superseded.

    The rows stay; report and export show them with the reason. An early warning that had counted the slot keeps
    what it published and begins a new segment, at a higher threshold, with the next day.
    """
    from canaryd.analysis import restarts
    from canaryd.daily import decide_due
    from canaryd.runner.clock import clock_of
    from canaryd.runner.quarantine import set_aside
    from canaryd.store.engine import open_store

    if not reason.strip():
        raise UsageError("--reason is empty; say why, it is stored and exported")
    config = load_config(config_file)
    name = config.one_series(series_name).name
    with open_store(config.store_url) as store:
        runs = set_aside(store, name, slot_date=slot.date(), arm=arm, reason=reason.strip(), now=clock_of(config).now())
        with store.read() as connection:
            restarting = restarts(connection, name)
    for run in runs:
        click.echo(f"{name} {run.start.slot_date} {run.start.arm}: attempt {run.start.attempt} is set aside")
    for restart in restarting:
        click.echo(f"{name} {restart}")
    try:
        verdicts = decide_due(config, name)
    except Locked as held:
        click.echo(f"verdicts that rest on it are decided anew by the process that holds the series ({held})")
        return
    for verdict in verdicts:
        said = decided(verdict.kind, verdict.direction, attribution=verdict.attribution, reasons=verdict.reasons)
        click.echo(f"{name} window {verdict.window_index} of epoch {verdict.epoch} is decided anew: {said}")
