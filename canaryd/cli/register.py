"""`canaryd register`: the rule comes first."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import click

from canaryd.cli.context import load_config
from canaryd.errors import UsageError
from canaryd.messages import say
from canaryd.runner.clock import clock_of
from canaryd.windows import Grid, utc_date
from canaryd.wording import counted


@click.command()
@click.option("--series", "series_name", help="Which series, where there are several.")
@click.option(
    "--start", default="tomorrow", metavar="today|tomorrow|DATE", help="Day 1 of the series (default tomorrow)."
)
@click.pass_obj
def register(config_file: str | None, series_name: str | None, start: str) -> None:
    """Check the registration against the panel, hash it and store it.

    From then on a project whose registration or panel was edited refuses to measure.
    """
    from canaryd.runner.project import frozen_panel
    from canaryd.runner.registering import register as store_registration
    from canaryd.store.engine import file_of, open_store, parse_url
    from canaryd.studies.registration_text import Subject, keep_registration, write_document

    config = load_config(config_file)
    chosen, clock = config.one_series(series_name), clock_of(config)
    start_date = _start_date(start, today=utc_date(clock.now()))
    panel = frozen_panel(chosen)
    with open_store(config.store_url, create=True) as store:
        registered = store_registration(chosen, panel, store=store, now=clock.now(), start_date=start_date)
        subject = Subject(chosen, panel, registered.prereg, start_date, registered.simulation)
        document = keep_registration(subject, store=store, now=clock.now())
    file = file_of(parse_url(config.store_url))
    path = write_document(subject, document, elsewhere=file.parent if file else Path.cwd())
    for warning in registered.warnings:
        say(f"warning: {warning}")
    rule = registered.prereg.rule
    click.echo(f"registered {chosen.name}: {registered.prereg.digest}")
    click.echo(f"  panel        {panel.name} {panel.version}, {counted(len(panel.items), 'item')}, {panel.digest}")
    click.echo(f"  day 1        {start_date} (UTC)")
    click.echo(
        f"  baseline     {counted(rule.baseline_days, 'day')}, then windows of {counted(rule.window_days, 'day')}"
    )
    second = Grid(start_date, rule.baseline_days, rule.window_days).window(2)
    click.echo(f"  {_expected(registered.simulation)}")
    if registered.sentinel_false_alarms is not None:
        click.echo(f"  sentinels    {registered.sentinel_false_alarms:.2g} false alarms a year are expected of them")
    click.echo(f"  a change can be declared once {second.last} has ended")
    commit = f", git commit {document.git_commit}" if document.git_commit else ""
    click.echo(f"  to read      {path} {document.digest}{commit}")


def _expected(simulation: Any) -> str:
    """Return one line of the simulated operating characteristics: false alarms in a year, and power for each drop."""
    from canaryd.stats.binomial import upper_limit

    alarms = simulation["false_alarms"][0]["rule"]["365"]
    limit = 100 * upper_limit(alarms["share"], alarms["series"])
    seen = [
        f"{100 * row['drop']:g} points {100 * row['rule']['within']['40']['share']:.0f} %"
        for row in simulation["detections"]
        if row["truth"] == "model"
    ]
    false = f"{100 * alarms['share']:.1f} % false alarms a year (below {limit:.1f} %, 95 % limit)"
    return f"simulated    {false}; seen within 40 days: {', '.join(seen)}"


def _start_date(start: str, *, today: date) -> date:
    if start in ("today", "tomorrow"):
        return today + timedelta(days=start == "tomorrow")
    try:
        chosen = date.fromisoformat(start)
    except ValueError:
        raise UsageError(f"--start is {start!r}, but must be today, tomorrow or a date such as {today}") from None
    if chosen > today + timedelta(days=366):
        raise UsageError(f"--start is {chosen}, more than a year ahead; register when the series is about to begin")
    if chosen < today:
        raise UsageError(
            f"--start is {chosen}, which is past: a rule is registered before the first day (today is {today})"
        )
    return chosen
