"""`canaryd sentinel`: the items that watch the model instead of measuring it."""

from __future__ import annotations

import click

from canaryd.cli.context import load_config
from canaryd.wording import counted


@click.group()
def sentinel() -> None:
    """Prepare the sentinels of a series."""


@sentinel.command("baseline")
@click.option("--samples", type=click.IntRange(10, 10_000), default=80, show_default=True, help="Of each sentinel.")
@click.option("--series", "series_name", help="Which series, where there are several.")
@click.pass_obj
def baseline_command(config_file: str | None, samples: int, series_name: str | None) -> None:
    """Ask every sentinel of the tracked arm many times before day 1, so that sentinels watch from the first slot on."""
    from canaryd.runner.burst import take_burst
    from canaryd.runner.clock import clock_of
    from canaryd.runner.slot import slot_of
    from canaryd.store.engine import open_store
    from canaryd.windows import utc_date

    config = load_config(config_file)
    with open_store(config.store_url) as store:
        today = utc_date(clock_of(config).now())
        slot = slot_of(config, config.one_series(series_name), store=store, slot_date=today)
        for burst in take_burst(slot, samples=samples):
            click.echo(f"{burst.item_id}: mean {burst.total / burst.n:.2f} over {counted(burst.n, 'sample')}")
