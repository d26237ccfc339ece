"""`canaryd doctor`: every check that stands before a measurement, made now, and what to do about each that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from canaryd.cli.context import load_config
from canaryd.errors import CanarydError, MeasurementRefused, StoreUnavailable
from canaryd.wording import counted

if TYPE_CHECKING:
    from canaryd.config import Config, SeriesConfig
    from canaryd.runner.preflight import Finding
    from canaryd.runner.slot import Slot
    from canaryd.store.engine import Store

_MEND_FIRST = "mend what the lines of the panel above say, then run `canaryd doctor` again: it tells what still differs"


@click.command()
@click.option("--series", "series_name", help="Only this series.")
@click.pass_obj
def doctor(config_file: str | None, series_name: str | None) -> None:
    """Check everything that a measurement needs, and send each arm one trivial task.

    Nothing of it is banked. Exits 69 when something would stop a measurement; each line says what to do.
    """
    from canaryd.store.engine import open_store

    config = load_config(config_file)
    with open_store(config.store_url) as store:
        problems = _examine_store(store)
        chosen = [config.one_series(series_name)] if series_name else config.series
        _show_keys(config, chosen)
        problems += _examine_webhook(config)
        for series in chosen:
            click.echo(f"{series.name}:")
            problems += _examine_series(config, series, store=store)
    if problems:
        raise MeasurementRefused(
            f"{counted(problems, 'check')} failed; each FAIL above says what to do", reason="doctor"
        )


def _examine_store(store: Store) -> int:
    """Print whether the store is whole and takes writes, as the daemon looks, and return how many checks failed."""
    from canaryd.store.check import require_whole

    try:
        require_whole(store)
        store.require_writes()
    except StoreUnavailable as error:
        click.echo(f"FAIL  store        {error}")
        return 1
    click.echo(f"ok    store        {store.name}")
    return 0


def _show_keys(config: Config, series: Iterable[SeriesConfig]) -> None:
    """Print where each key comes from and the end of its digest, by which two keys are told apart."""
    from canaryd.cli.keys import key_warning, keys_of

    for name, key in keys_of(config, series).items():
        click.echo(f"ok    key          {name} from {key.source}, SHA-256 ends in {key.fingerprint}")
        if warning := key_warning(name, key):
            click.echo(f"      warning: {warning}")


def _examine_webhook(config: Config) -> int:
    """Print whether the URL of a configured webhook can be found, and return how many failed; nothing is sent."""
    from canaryd.webhook.deliver import receiver_of

    if config.service.webhook is None:
        return 0
    try:
        receiver = receiver_of(config)
    except CanarydError as error:
        click.echo(f"FAIL  webhook      {error}")
        return 1
    click.echo(f"ok    webhook      its URL is in {receiver.url.source}; try it with `canaryd alert test --webhook`")
    return 0


def _examine_series(config: Config, series: SeriesConfig, *, store: Store) -> int:
    """Print what every check finds of a series, and return how many failed; one that fails ends none of the others."""
    from canaryd.runner.clock import clock_of
    from canaryd.runner.preflight import Finding
    from canaryd.runner.trust import clock_problem

    clock = clock_of(config)
    click.echo(f"ok    lease        {_lease(store, series.name, now=clock.now())}")
    slot, failed = _open(config, series, store=store, now=clock.now())
    if slot is None:
        findings = [Finding("clock", series.name, clock_problem(clock, store))]
    else:
        findings = asyncio.run(_examine(slot))
    for finding in findings:
        mark = "FAIL" if finding.problem is not None else "ok  " if finding.made else "skip"
        click.echo(f"{mark}  {finding.check:<11}  {finding.arm}  {finding.problem or finding.note}".rstrip())
        if finding.problem is not None:
            # No deviation can be accepted before the files are those of the series again.
            click.echo(f"      -> {_MEND_FIRST if failed and finding.check == 'fingerprint' else finding.cure}")
    return failed + sum(finding.problem is not None for finding in findings)


def _lease(store: Store, name: str, *, now: datetime) -> str:
    """Return who holds a series."""
    from canaryd.store.lease import living_lease
    from canaryd.store.process import is_alive

    with store.read() as connection:
        lease = living_lease(connection, name, now=now, is_alive=is_alive)
    if lease is None:
        return "free"
    return f"held by process {lease.holder.pid} on {lease.holder.host}, which measures this series"


def _open(config: Config, series: SeriesConfig, *, store: Store, now: datetime) -> tuple[Slot | None, int]:
    """Print how the files of a series stand to its lock and its registration; return its slot and how many failed.

    There is no slot where the panel cannot be read or the series is not registered.
    """
    from canaryd import graders
    from canaryd.panel import load
    from canaryd.runner.project import require_as_registered, require_in_lock
    from canaryd.runner.slot import unchecked_slot
    from canaryd.windows import utc_date

    try:
        panel = load(str(series.panel), graders=graders)
        slot = unchecked_slot(config, series, store=store, slot_date=utc_date(now), panel=panel)
    except CanarydError as error:
        click.echo(f"FAIL  series       {error}")
        return None, 1
    problems = []
    for require in (
        partial(require_in_lock, series, panel),
        partial(require_as_registered, series, panel, store=store),
    ):
        try:
            require()
        except CanarydError as error:
            problems.append(str(error))
    for problem in problems:
        click.echo(f"FAIL  panel        {problem}")
    if not problems:
        click.echo("ok    panel        is the one in its lock and in the registration")
    return slot, len(problems)


async def _examine(slot: Slot) -> list[Finding]:
    """Return what every check finds of every arm, those that cannot be asked as configured included."""
    from canaryd.runner.preflight import open_lanes, preflight

    async with open_lanes(slot, {arm.name for arm in slot.config.arms}) as (lanes, unasked):
        checked = await preflight(slot, lanes, asks=slot.owed(), thorough=True)
    return [*unasked, *checked.findings]
