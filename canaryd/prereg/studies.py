"""The tables of a registration that are about the studies beside a series, its planning and its words."""

from __future__ import annotations

from typing import Any, cast, get_args

from canaryd import checks
from canaryd.params import json_values, request_params
from canaryd.prereg.model import Planning, Statement
from canaryd.stats.study_params import CalibrationParams, PositiveControl, SeenIn, ValidationParams
from canaryd.tables import Table


def calibration(table: Table) -> CalibrationParams:
    """Return how a pool is screened and confirmed."""
    samples = table.take("screen_samples", int, check=checks.between(2, 1000))
    keep_min = table.take("keep_min", float, check=checks.between(0, samples))
    params = CalibrationParams(
        screen_samples=samples,
        keep_min=keep_min,
        keep_max=table.take("keep_max", float, check=checks.between(keep_min, samples)),
        confirm_samples=table.take("confirm_samples", int, check=checks.between(2, 1000)),
    )
    table.done()
    return params


def validation(table: Table) -> ValidationParams:
    """Return the pass criterion of a validation."""
    streams: list[Any] = table.take("seen_in", list, check=checks.each_once(get_args(SeenIn)))
    controls = table.tables("controls")
    if not controls:
        table.refuse("controls", "is required: name at least one change that the instrument must see")
    params = ValidationParams(
        samples=table.take("samples", int, check=checks.between(2, 1000)),
        alpha=table.take("alpha", float, check=checks.fraction),
        seen_in=tuple(cast("SeenIn", stream) for stream in streams),
        controls=tuple(_positive_control(control) for control in controls),
    )
    table.done()
    names = [control.name for control in params.controls]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        table.refuse("controls", f"names two controls {repeated!r}; rename one")
    return params


def _positive_control(table: Table) -> PositiveControl:
    control = PositiveControl(
        name=table.take("name", str, check=checks.name),
        arm=table.optional("arm", str),
        model=table.optional("model", str),
        params=request_params(table.table("params")),
        options=json_values(table.table("options")),
    )
    table.done()
    return control


def planning(table: Table) -> Planning:
    """Return what is simulated before there are data."""
    planned = Planning(
        mean_pass_rate=table.take("mean_pass_rate", float, check=checks.fraction),
        pass_rate_concentration=table.take("pass_rate_concentration", float, check=checks.between(0.1, 1000)),
        series=table.take("series", int, check=checks.between(100, 1_000_000)),
        drops=tuple(float(drop) for drop in table.take("drops", list, check=checks.numbers(-1, 1))),
        day_shocks=tuple(float(shock) for shock in table.take("day_shocks", list, check=checks.numbers(0, 0.5))),
        seed=table.take("seed", int, check=checks.between(0, 2**53)),
    )
    table.done()
    return planned


def statement(table: Table) -> Statement:
    """Return what is said in words."""

    def sentences(key: str) -> tuple[str, ...]:
        values: list[Any] = table.take(key, list, check=checks.sentences)
        return tuple(values)

    said = Statement(
        exclusions=sentences("exclusions"),
        secondary_analyses=sentences("secondary_analyses"),
        threats=sentences("threats"),
        publication=table.take("publication", str, check=checks.filled),
    )
    table.done()
    return said
