"""`canaryd doctor`: every check that stands before a measurement, made now, and what to do about each that fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from canaryd.cli.context import load_config
from canaryd.errors import CanarydError, MeasurementRefused
from canaryd.wording import counted

if TYPE_CHECKING:
    from canaryd.config import Config, SeriesConfig
    from canaryd.runner.preflight import Preflight
    from canaryd.runner.slot import Slot
    from canaryd.store.engine import Store


@click.command()
@click.option("--series", "series_name", help="Only this series.")
@click.pass_obj
def doctor(config_file: str | None, series_name: str | None) -> None:
    """Check everything that a measurement needs, and send each arm one trivial task.

    Nothing of it is banked. Exits 69 when something would stop a measurement; each line says what to do.
    """
    from canaryd.store.engine import open_store

    config = load_config(config_file)
    problems = 0
    with open_store(config.store_url) as store:
        click.echo(f"ok    store        {store.name}")
        for series in [config.one_series(series_name)] if series_name else config.series:
            click.echo(f"{series.name}:")
            problems += _examine_series(config, series, store=store)
    if problems:
        raise MeasurementRefused(
            f"{counted(problems, 'check')} failed; each FAIL above says what to do", reason="doctor"
        )


def _examine_series(config: Config, series: SeriesConfig, *, store: Store) -> int:
    """Print what every check finds of a series, and return how many failed."""
    from canaryd.runner.clock import clock_of
    from canaryd.runner.slot import slot_of
    from canaryd.store.lease import current_lease
    from canaryd.windows import utc_date

    now = clock_of(config).now()
    try:
        slot = slot_of(config, series, store=store, slot_date=utc_date(now))
        checked = asyncio.run(_examine(slot))
    except CanarydError as error:
        check = "panel" if isinstance(error, MeasurementRefused) else "series"
        click.echo(f"FAIL  {check:<11}  {error}")
        return 1
    with store.read() as connection:
        lease = current_lease(connection, series.name)
    held = lease is not None and now < lease.expires_at
    note = f"held by process {lease.holder.pid}, which measures this series" if lease and held else "free"
    click.echo(f"ok    lease        {note}")
    click.echo("ok    panel        is the one in its lock and in the registration")
    for finding in checked.findings:
        mark = "ok  " if finding.problem is None else "FAIL"
        click.echo(f"{mark}  {finding.check:<11}  {finding.arm}  {finding.problem or finding.note}".rstrip())
        if finding.problem is not None:
            click.echo(f"      -> {finding.cure}")
    return sum(finding.problem is not None for finding in checked.findings)


async def _examine(slot: Slot) -> Preflight:
    from canaryd.runner.preflight import preflight

    lanes = slot.lanes([arm.name for arm in slot.config.arms])
    try:
        return await preflight(slot, lanes, asks=slot.owed(), thorough=True)
    finally:
        for lane in lanes.values():
            await lane.provider.aclose()
