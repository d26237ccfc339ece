"""`canaryd simulate`: how often this registration cries wolf, and how soon it sees a change."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canaryd.cli.context import load_config
from canaryd.cli.numbers import FiniteRange
from canaryd.config import Config, SeriesConfig
from canaryd.errors import ConfigError, UsageError
from canaryd.messages import progress, say
from canaryd.prereg import Prereg
from canaryd.records import Item

if TYPE_CHECKING:
    from canaryd.stats.simulate import SimulationPlan


@click.command()
@click.option("--series", "series_name", help="Which series, where there are several.")
@click.option(
    "--rates",
    default="assumed",
    metavar="assumed|baseline|FILE",
    help="Pass rates: the registration's assumption, those of the stored baseline, or a CSV file with item_id,rate.",
)
@click.option(
    "--count", type=click.IntRange(100, 1_000_000), default=10_000, show_default=True, help="Simulated series a cell."
)
@click.option(
    "--monitor",
    type=click.IntRange(0, 100_000),
    default=200,
    show_default=True,
    help="How many of them the early warning follows; it costs far more.",
)
@click.option(
    "--drops", metavar="POINTS,...", help="Falls of the mean score in points (default those of the registration)."
)
@click.option(
    "--shocks",
    metavar="POINTS,...",
    help="Standard deviations of shared day shocks in points (default the registration's).",
)
@click.option(
    "--rho", type=FiniteRange(0, 0.99), default=0.0, show_default=True, help="AR(1) correlation of the day shocks."
)
@click.option("--seed", type=click.IntRange(0, 2**53), help="Default that of the registration.")
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Also write a picture (SVG).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def simulate(
    config_file: str | None, /, *, series_name: str | None, as_json: bool, picture: Path | None, **wanted: Any
) -> None:
    """Simulate the registration of a series on its own panel: false alarms, and power and delay for each change.

    The rule and the early warning stand next to each other. Nothing is asked of a model, and nothing is stored.
    """
    import numpy as np

    from canaryd.stats.simulate import operating_characteristics
    from canaryd.studies.characteristics import as_text

    config = load_config(config_file)
    series = config.one_series(series_name)
    protocol, items = _registration(config, series)
    seed = wanted["seed"] if wanted["seed"] is not None else protocol.planning.seed
    plan = _plan(
        series,
        protocol,
        items=items,
        rates=_rates(config, series, protocol=protocol, items=items, source=wanted["rates"]),
        wanted=wanted,
    )
    with progress("simulating") as on_done:
        try:
            found = operating_characteristics(plan, np.random.default_rng(seed), progress=on_done)
        except ValueError as error:
            raise UsageError(f"this cannot be simulated: {error}") from None
    answer = {"schema_version": 1, "series": series.name, "seed": seed, "rates": wanted["rates"], **found.to_json()}
    click.echo(json.dumps(answer, indent=1) if as_json else as_text(answer))
    if picture:
        from canaryd.report.plots import characteristics_svg

        picture.write_bytes(characteristics_svg(answer))
        say(f"picture {picture}")


def _registration(config: Config, series: SeriesConfig) -> tuple[Prereg, tuple[Item, ...]]:
    from canaryd.runner.project import frozen_panel
    from canaryd.runner.registering import check_registration, known_information

    panel = frozen_panel(series)
    protocol, warnings = check_registration(series, panel, information=known_information(config, series))
    for warning in warnings:
        say(f"warning: {warning}")
    return protocol, protocol.measured(panel.items)


def _plan(
    series: SeriesConfig,
    protocol: Prereg,
    *,
    items: Sequence[Item],
    rates: Mapping[str, float],
    wanted: Mapping[str, Any],
) -> SimulationPlan:
    from canaryd.runner.characteristics import planned_simulation
    from canaryd.stats.simulate import DayShock

    planning = dataclasses.replace(protocol.planning, series=wanted["count"])
    if wanted["drops"]:
        planning = dataclasses.replace(planning, drops=_fractions("--drops", wanted["drops"], low=-100, high=100))
    if wanted["shocks"]:
        planning = dataclasses.replace(planning, day_shocks=_fractions("--shocks", wanted["shocks"], low=0, high=50))
    has_control = any(arm.role == "control" for arm in series.arms)
    try:
        plan = planned_simulation(
            dataclasses.replace(protocol, planning=planning),
            items,
            rates=rates,
            has_control=has_control,
            monitor_series=wanted["monitor"],
        )
        shocks = tuple(DayShock(sd, wanted["rho"] if sd else 0.0) for sd in planning.day_shocks)
        return dataclasses.replace(plan, shocks=shocks)
    except ValueError as error:
        raise UsageError(f"this cannot be simulated: {error}") from None


def _fractions(option: str, text: str, *, low: float, high: float) -> tuple[float, ...]:
    kind = FiniteRange(low, high)
    try:
        return tuple(kind.convert(part, None, None) / 100 for part in text.split(","))
    except click.BadParameter:
        raise UsageError(
            f"{option} is {text!r}, but must be numbers of points from {low:g} to {high:g} separated by commas, "
            "such as 3,5,10"
        ) from None


def _rates(
    config: Config, series: SeriesConfig, *, protocol: Prereg, items: Sequence[Item], source: str
) -> Mapping[str, float]:
    from canaryd.runner.characteristics import assumed_rates

    if source == "assumed":
        return assumed_rates(items, protocol.planning)
    if source == "baseline":
        return _baseline_rates(config, series.name)
    return _rates_of_file(Path(source))


def _baseline_rates(config: Config, name: str) -> dict[str, float]:
    from canaryd.analysis import Evidence, load_subject
    from canaryd.store.engine import open_store

    with open_store(config.store_url) as store, store.read() as connection:
        subject = load_subject(connection, name)
        evidence = Evidence(connection, subject)
        totals = evidence.cells(evidence.span(subject.tracked, 0)).by_item()
    if not totals.items:
        raise UsageError(f"series {name!r} has no measured baseline yet; use --rates assumed or a file")
    return dict(zip(totals.items, totals.mean.tolist(), strict=True))


def _rates_of_file(path: Path) -> dict[str, float]:
    import csv

    from canaryd.files import read_text

    rates: dict[str, float] = {}
    for number, row in enumerate(csv.DictReader(read_text(path).splitlines()), start=2):
        try:
            item_id, rate = row["item_id"], FiniteRange(0, 1).convert(row["rate"], None, None)
        except (KeyError, TypeError, click.BadParameter):
            raise ConfigError(
                f"{path}:{number}: needs the columns item_id and rate, rate a number from 0 to 1"
            ) from None
        if item_id in rates:
            raise ConfigError(f"{path}:{number}: item {item_id!r} comes twice, so its rate is not certain; keep one")
        rates[item_id] = rate
    return rates
