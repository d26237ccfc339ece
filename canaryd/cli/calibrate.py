"""`canaryd calibrate`: which questions of a pool are worth asking every day."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from canaryd.cli.context import load_config
from canaryd.cli.numbers import FiniteRange
from canaryd.config import SeriesConfig
from canaryd.errors import ConfigError, MeasurementRefused, UsageError
from canaryd.messages import progress, say
from canaryd.wording import counted

if TYPE_CHECKING:
    from canaryd.studies.collect import Collected
    from canaryd.studies.laboratory import Laboratory

Command = TypeVar("Command", bound=Callable[..., Any])

_POOL = click.argument("pool", required=False, type=click.Path(path_type=Path))
_SERIES = click.option("--series", "series_name", help="Which series, where there are several.")
_ARM = click.option("--arm", "arm_name", help="Which arm is asked (default the tracked one).")
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


def _number(flag: str, kind: FiniteRange, *, default: float, text: str) -> Callable[[Command], Command]:
    return click.option(flag, type=kind, default=default, show_default=True, help=text)


@click.group()
def calibrate() -> None:
    """Screen a pool, confirm what is left on fresh samples, design the panel and freeze it.

    POOL is any panel file; without one it is pool.jsonl beside the panel of the series, which the first screen
    generates. A command that was cut off goes on where it stopped; samples of one stage never serve another.
    """


@calibrate.command("screen")
@_POOL
@_SERIES
@_ARM
@click.option("--size", type=click.IntRange(1, 5000), default=480, show_default=True, help="Of a pool to generate.")
@click.option("--families", help="Of a pool to generate, separated by commas (default all).")
@_JSON
@click.pass_obj
def screen_command(config_file: str | None, /, *, pool: Path | None, as_json: bool, **chosen: Any) -> None:
    """Ask every item of POOL as often as registered, and say which are sometimes right; exit 69 while any is missing.

    Sentinels and judged items of the pool are not screened.
    """
    from canaryd.studies.calibrate import calibration_of, screen_pool
    from canaryd.studies.calibrate_text import screen_text

    with _laboratory(config_file, chosen["series_name"], pool=pool, generate=chosen) as lab:
        arm = lab.arm(chosen["arm_name"])
        with progress("screening") as on_landed:
            collected = screen_pool(lab, arm, on_landed=on_landed)
        report = calibration_of(lab, arm).to_json()
    click.echo(json.dumps(report, indent=1) if as_json else screen_text(report))
    _require_whole(collected, "screen")


@calibrate.command("confirm")
@_POOL
@_SERIES
@_ARM
@_JSON
@click.pass_obj
def confirm_command(config_file: str | None, /, *, pool: Path | None, as_json: bool, **chosen: Any) -> None:
    """Ask the kept items afresh, and say how far they went back to what they are; exit 69 while any is missing."""
    from canaryd.studies.calibrate import calibration_of, confirm_kept
    from canaryd.studies.calibrate_text import confirm_text

    with _laboratory(config_file, chosen["series_name"], pool=pool) as lab:
        arm = lab.arm(chosen["arm_name"])
        with progress("confirming") as on_landed:
            collected = confirm_kept(lab, arm, on_landed=on_landed)
        report = calibration_of(lab, arm).to_json()
    click.echo(json.dumps(report, indent=1) if as_json else confirm_text(report))
    _require_whole(collected, "confirmation")


@calibrate.command("design")
@_POOL
@_SERIES
@_ARM
@click.option("--out", type=click.Path(path_type=Path), help="Write the panel here and freeze it.")
@click.option("--per-day", type=click.IntRange(1, 100), default=1, show_default=True, help="Samples of an item a day.")
@click.option(
    "--day-correlation",
    type=FiniteRange(0, 1),
    default=0.0,
    show_default=True,
    help="How much samples of one item on one day look alike.",
)
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Also write a picture (SVG).")
@_JSON
@click.pass_obj
def design_command(
    config_file: str | None, /, *, pool: Path | None, out: Path | None, as_json: bool, **chosen: Any
) -> None:
    """Say what the confirmed items see and what other budgets buy; with --out, write them as a frozen panel."""
    from canaryd.studies.calibrate import calibration_of, require_screened, write_panel
    from canaryd.studies.calibrate_text import design_text
    from canaryd.studies.design_plot import design_svg

    with _laboratory(config_file, chosen["series_name"], pool=pool) as lab:
        found = require_screened(calibration_of(lab, lab.arm(chosen["arm_name"])))
        designed = found.design(per_day=chosen["per_day"], day_correlation=chosen["day_correlation"])
        if designed is None:
            raise UsageError(f"{lab.panel.path}: no kept item is confirmed; run `canaryd calibrate confirm` first")
        report, design, rule = found.to_json(), designed.to_json(), lab.prereg.rule
        warnings = write_panel(found, out, per_day=chosen["per_day"]) if out else ()
        target = lab.prereg.target_mde
    if as_json:
        click.echo(json.dumps({**report, "design": design, "written": str(out) if out else None}, indent=1))
    else:
        power = f"z {rule.mde.z_confidence:g} and {rule.mde.z_power:g}, target {100 * target:g}"
        click.echo(design_text(design, power=power))
    for warning in warnings:
        say(f"warning: {warning}")
    if chosen["picture"]:
        chosen["picture"].write_bytes(design_svg(design, target=target))
        say(f"picture {chosen['picture']}")
    if out:
        named = out.resolve() == found.lab.series.panel.resolve()
        following = "next: canaryd validate run && canaryd register" if named else "name it as the panel of the series"
        say(f"{out}: written and frozen, {counted(len(found.kept), 'item')}; {following}")


@calibrate.command("predict")
@click.argument("counts", type=click.Path(path_type=Path))
@click.option("--baseline", type=click.IntRange(1), default=20, show_default=True, help="Samples of an item in it.")
@click.option("--window", type=click.IntRange(1), default=10, show_default=True, help="Samples of an item in a window.")
@_number("--z-confidence", FiniteRange(0.5, 10), default=2.576, text="Critical value of the interval.")
@_number("--z-power", FiniteRange(0, 10), default=0.842, text="Quantile of the power.")
@_number("--two-window-factor", FiniteRange(1, 10), default=1.24, text="What the rule asks for more.")
@_JSON
def predict_command(*, counts: Path, baseline: int, window: int, as_json: bool, **params: float) -> None:
    """Say what items see whose passes are known: COUNTS is a CSV file with item_id,passes,samples.

    Shown under the unbiased variance of an item, which canaryd uses, and under the two usual biased ones.
    """
    from canaryd.stats.calibration import information_estimates
    from canaryd.stats.params import MdeParams
    from canaryd.studies.calibrate_text import estimates_text

    try:
        found = information_estimates(
            _counts_of(counts), samples_baseline=baseline, samples_window=window, params=MdeParams(**params)
        )
    except ValueError as error:
        raise ConfigError(f"{counts}: {error}") from None
    click.echo(json.dumps(found.to_json(), indent=1) if as_json else estimates_text(found.to_json()))


def _counts_of(path: Path) -> list[tuple[int, int]]:
    import csv

    from canaryd.files import read_text

    counts: dict[str, tuple[int, int]] = {}
    for number, row in enumerate(csv.DictReader(read_text(path).splitlines()), start=2):
        try:
            item_id, passes, samples = row["item_id"], int(row["passes"]), int(row["samples"])
        except (KeyError, TypeError, ValueError):
            raise ConfigError(
                f"{path}:{number}: needs the columns item_id, passes and samples, the last two whole numbers"
            ) from None
        if samples < 2 or not 0 <= passes <= samples:
            raise ConfigError(
                f"{path}:{number}: has {passes} passes of {samples} samples, but there must be 2 samples or more, and "
                "passes from 0 to as many; mend that row"
            )
        if item_id in counts:
            raise ConfigError(f"{path}:{number}: item {item_id!r} comes twice; an item has one row, so drop the copy")
        counts[item_id] = passes, samples
    return list(counts.values())


@contextmanager
def _laboratory(
    config_file: str | None, series_name: str | None, *, pool: Path | None, generate: dict[str, Any] | None = None
) -> Iterator[Laboratory]:
    from canaryd.studies.laboratory import laboratory

    config = load_config(config_file)
    series = config.one_series(series_name)
    if pool is None:
        pool = _default_pool(series, generate)
    with laboratory(config, series, pool=pool) as lab:
        yield lab


def _default_pool(series: SeriesConfig, generate: dict[str, Any] | None) -> Path:
    """Return the pool beside the panel of a series, generated from a seed that nobody knows where it is not there."""
    from canaryd.studies.pool import generate_pool

    pool = series.panel.with_name("pool.jsonl")
    if pool.exists():
        return pool
    if generate is None:
        raise UsageError(f"{pool}: there is no pool; `canaryd calibrate screen` generates one, or name yours")
    seed_file = generate_pool(pool, size=generate["size"], families=generate["families"])
    say(f"{pool}: generated; its seed is in {seed_file}, keep it private while the panel is in use")
    return pool


def _require_whole(collected: Collected, stage: str) -> None:
    if not collected.missing:
        return
    failed = ", ".join(f"{count} {kind}" for kind, count in collected.failures.items())
    why = collected.stopped or (f"failures: {failed}" if failed else "not all were asked")
    raise MeasurementRefused(
        f"{counted(collected.missing, 'sample')} of the {stage} missing ({why}); run the same command again to go on",
        reason="budget" if collected.stopped else "incomplete",
    )
