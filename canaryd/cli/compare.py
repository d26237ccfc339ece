"""`canaryd compare`: two result files and five minutes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from canaryd.cli.numbers import INSIDE, SHARE, FiniteRange
from canaryd.errors import UsageError
from canaryd.messages import say

if TYPE_CHECKING:
    from canaryd.compare.build import CompareParams

Command = TypeVar("Command", bound=Callable[..., Any])


def _pairs(values: tuple[str, ...], *, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values:
        key, equals, wanted = value.partition("=")
        if not (key and equals):
            raise UsageError(f"{option} is {value!r}, but must be written NAME=VALUE")
        if pairs.setdefault(key, wanted) != wanted:
            raise UsageError(f"{option} gives {key} twice, as {pairs[key]!r} and {wanted!r}; keep one")
    return pairs


def _names(values: tuple[str, ...]) -> dict[str, str]:
    from canaryd.compare.side import COLUMNS

    pairs = _pairs(values, option="--column")
    if unknown := next((name for name in pairs if name not in COLUMNS), None):
        raise UsageError(f"--column names {unknown!r}, but must name one of {', '.join(COLUMNS)}")
    return pairs


def _option(flag: str, kind: click.ParamType[Any], *, default: float, text: str) -> Callable[[Command], Command]:
    return click.option(flag, type=kind, default=default, show_default=True, help=text)


@click.command()
@click.argument("baseline", type=click.Path(path_type=Path))
@click.argument("current", type=click.Path(path_type=Path))
@click.option("--where", multiple=True, metavar="COLUMN=VALUE", help="Only such rows, on both sides.")
@click.option("--baseline-where", multiple=True, metavar="COLUMN=VALUE", help="Only of the baseline.")
@click.option("--current-where", multiple=True, metavar="COLUMN=VALUE", help="Only of the current.")
@click.option("--column", multiple=True, metavar="NAME=THEIRS", help="Under which name a column is.")
@click.option(
    "--unscored",
    type=click.Choice(["exclude", "wrong"]),
    default="exclude",
    show_default=True,
    help="What a row without a score is: left out, or a wrong answer.",
)
@_option("--confidence", INSIDE, default=0.99, text="Of every interval.")
@_option("--min-effect", SHARE, default=0.03, text="A smaller delta is no change, however certain (0.03 is 3 points).")
@_option("--min-item-share", SHARE, default=0.8, text="Of the items, how many must pair for a judgement.")
@_option("--min-df", FiniteRange(1), default=4.0, text="Degrees of freedom below which nothing is judged.")
@_option(
    "--min-changed-items",
    click.IntRange(0),
    default=5,
    text="With fewer items that moved, the standard error has a floor.",
)
@_option(
    "--min-discordant", click.IntRange(1), default=10, text="Discordant pairs below which McNemar's p is withheld."
)
@_option("--min-token-change", SHARE, default=0.1, text="A smaller change of tokens is called ok in --json.")
@_option("--power", INSIDE, default=0.8, text="At which the smallest change likely to be detected is given.")
@_option("--headroom-high", SHARE, default=0.9, text="Baseline mean from which a rise can hardly show.")
@_option("--headroom-low", INSIDE, default=0.1, text="Baseline mean up to which a drop can hardly show.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document with a schema_version.")
def compare(
    baseline: Path,
    current: Path,
    where: tuple[str, ...],
    baseline_where: tuple[str, ...],
    current_where: tuple[str, ...],
    column: tuple[str, ...],
    unscored: str,
    as_json: bool,
    **numbers: Any,
) -> None:
    """Compare the scores of two files, each item with itself: CSV, TSV, JSON lines or Parquet, one row an answer.

    Columns: item_id (or id, item) and score in 0..1, and where there are any output_tokens, target, cluster, family,
    date (or slot_date), replicate, sentinel and invalid_reason. An item may have several rows. Exits 0 when no change
    is detected, 1 when the interval excludes 0 and the delta is at least the minimum effect, 2 when it could not be
    judged.
    """
    from canaryd.compare import build, rows, side, text

    shared, sides, names = _pairs(where, option="--where"), [], []
    for title, path, only in (("baseline", baseline, baseline_where), ("current", current, current_where)):
        wanted = {**shared, **_pairs(only, option=f"--{title}-where")}
        sides.append(side.build_side(rows.select(rows.read_rows(path), wanted, path=path), names=_names(column)))
        names.append(" ".join([str(path), *(f"{key}={value}" for key, value in wanted.items())]))
    remarks = [each.warning for each in sides if each.warning]
    if names[0] == names[1]:
        remarks.append(f"{names[0]}: is given on both sides, so nothing can differ; name two files or two selections")
    for remark in remarks:
        say(f"warning: {remark}")
    how: build.Unscored = "wrong" if unscored == "wrong" else "exclude"
    result = build.compare(sides[0], sides[1], unscored=how, params=_params(**numbers))
    if as_json:
        click.echo(json.dumps({**result.to_json(), "files": list(names)}, indent=1))
    else:
        click.echo(text.as_text(result, names=(names[0], names[1])))
    click.get_current_context().exit(result.exit_code)


def _params(**numbers: Any) -> CompareParams:
    from statistics import NormalDist

    from canaryd.compare.build import CompareParams
    from canaryd.stats.params import EstimateParams, HeadroomParams, TokenParams

    if numbers["headroom_low"] >= numbers["headroom_high"]:
        raise UsageError("--headroom-low must be below --headroom-high; lower it or raise the other")
    estimate = EstimateParams(numbers["confidence"], numbers["min_df"], numbers["min_changed_items"])
    return CompareParams(
        tokens=TokenParams(estimate, numbers["min_token_change"]),
        min_effect=numbers["min_effect"],
        min_item_share=numbers["min_item_share"],
        min_discordant=numbers["min_discordant"],
        z_power=NormalDist().inv_cdf(numbers["power"]),
        headroom=HeadroomParams(high=numbers["headroom_high"], low=numbers["headroom_low"]),
    )
