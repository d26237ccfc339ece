"""`canaryd rehearse`: the days of a project whose calendar stands in a file, one after the other."""

from __future__ import annotations

from datetime import date, timedelta

import click

from canaryd.cli.context import load_config
from canaryd.cli.interrupt import end_gently
from canaryd.config import Config, SeriesConfig
from canaryd.errors import MeasurementRefused, UsageError
from canaryd.messages import progress
from canaryd.records import Run, Verdict
from canaryd.runner.clock import clock_of, set_demo_clock
from canaryd.windows import utc_date
from canaryd.wording import counted, dated, decided


@click.command()
@click.option("--days", type=click.IntRange(1, 3660), required=True, help="How many days are measured.")
@click.option("--series", "series_name", help="Which series, where there are several.")
@click.pass_obj
def rehearse(config_file: str | None, days: int, series_name: str | None) -> None:
    """Measure day after day of a project with a demo clock, and set that clock to the end of the last one.

    It begins with day 1 of the series or, later, with the day that the clock shows. What is due is decided as in
    earnest; a project that has no [demo] clock lives in real time and is refused. Ctrl-C stores the answers in flight
    and exits 130; the same command goes on with that day.
    """
    from canaryd.daily import decide_due, measure_slot

    config = load_config(config_file)
    series = config.one_series(series_name)
    first = _first_day(config, series)
    end_gently()
    verdicts: list[Verdict] = []
    runs: list[Run] = []
    with progress("days", length=days) as on_day:
        for number in range(days):
            day = first + timedelta(days=number)
            set_demo_clock(config, day, minute=config.schedule.due_minute)
            result = measure_slot(config, series, slot_date=day)
            runs += result.runs
            verdicts += result.verdicts
            on_day(number + 1, days)
        set_demo_clock(config, first + timedelta(days=days), minute=0)
        verdicts += decide_due(config, series.name)
    last = first + timedelta(days=days - 1)
    click.echo(f"{series.name}: measured {first} to {last}, {counted(days, 'day')}")
    ends = [(run.start, run.end) for run in runs if run.end is not None]
    failed = [(start, end) for start, end in ends if end.outcome != "completed"]
    for line in dated((start.slot_date, f"{start.arm}: {end.outcome} {end.reason}") for start, end in failed):
        click.echo(f"  {line}")
    for verdict in verdicts:
        said = decided(verdict.kind, verdict.direction, attribution=verdict.attribution, reasons=verdict.reasons)
        click.echo(f"  window {verdict.window_index}: {said}")
    if ends and all(end.outcome == "refused" for _, end in ends):
        raise MeasurementRefused(
            f"no arm of {series.name} was asked on any of these days; see what `canaryd doctor` says to do about it",
            reason="incomplete",
        )
    click.echo("next: canaryd status, or canaryd rehearse --days N to go on")


def _first_day(config: Config, series: SeriesConfig) -> date:
    """Return the day to begin with."""
    from canaryd.store import read
    from canaryd.store.engine import open_store

    if config.demo_clock is None:
        raise UsageError(
            f"{config.path}: has no [demo] clock, so its days pass by themselves; `canaryd run --slot today` measures "
            "one, and `canaryd init DIR --simulated` writes a project to rehearse with"
        )
    with open_store(config.store_url) as store, store.read() as connection:
        start = read.series(connection, series.name).start_date
    return max(start, utc_date(clock_of(config).now()))
