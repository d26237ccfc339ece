"""From the bytes of a registration's file to a Prereg, refused where it makes no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast, get_args

from canaryd import checks
from canaryd.errors import ConfigError
from canaryd.hashing import digest
from canaryd.prereg.model import JudgeRule, Prereg
from canaryd.prereg.studies import calibration, planning, statement, validation
from canaryd.stats.params import EstimateParams, HeadroomParams, MdeParams, Mode, RuleParams, TokenParams
from canaryd.stats.watch_params import Direction, EarlyWarningParams, SentinelParams, Stream
from canaryd.tables import Table, parse_table


def load(path: Path) -> Prereg:
    """Return the registration in a file; see `parse`."""
    return parse(path.read_bytes(), source=path.name)


def parse(data: bytes, *, source: str) -> Prereg:
    """Return the registration in the bytes of a TOML file; its digest is over those bytes.

    Raises:
        ConfigError: it is not UTF-8 or TOML, a key is unknown, missing, of the wrong type or out of range, or the
            numbers together leave no decision reachable; one sentence with file, line and key.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: byte {error.start} is not UTF-8 text; save the file as UTF-8") from None
    root = parse_table(text, source=source)
    mode = cast("Mode", root.take("mode", str, check=checks.one_of("canaryd", "prereg")))
    grid, rule, control, mde = (root.table(name) for name in ("grid", "rule", "control", "mde"))
    horizon_days = grid.take("horizon_days", int, check=checks.between(1, 36_500))
    params = _rule(rule, grid, mode=mode, control=control, mde=mde)
    _refuse_unreachable(params, grid, horizon_days=horizon_days)
    target_mde = mde.take("target", float, check=checks.fraction)
    prereg = Prereg(
        digest=digest(data),
        source=source,
        horizon_days=horizon_days,
        rule=params,
        target_mde=target_mde,
        tokens=TokenParams(params.estimate, _only(root.table("tokens"), "min_change")),
        outcome_alpha=_only(root.table("outcomes"), "alpha"),
        headroom=_headroom(root.table("headroom")),
        localisation_q=_only(root.table("localisation"), "q"),
        early_warning=_early_warning(root.table("early_warning"), params),
        sentinels=_sentinels(root.table("sentinels")),
        calibration=calibration(root.table("calibration")),
        validation=validation(root.table("validation")),
        planning=planning(root.table("planning")),
        statement=statement(root.table("statement")),
        judge=_judge(judge) if (judge := root.optional_table("judge")) else None,
    )
    for table in (grid, rule, control, mde, root):
        table.done()
    return prereg


def _rule(rule: Table, grid: Table, *, mode: Mode, control: Table, mde: Table) -> RuleParams:
    z = rule.take("z", float, check=checks.between(0.5, 10))
    return RuleParams(
        mode=mode,
        baseline_days=grid.take("baseline_days", int, check=checks.between(1, 366)),
        window_days=grid.take("window_days", int, check=checks.between(1, 366)),
        estimate=EstimateParams(
            confidence=rule.take("confidence", float, check=checks.confidence),
            min_df=rule.take("min_df", float, check=checks.between(1, 1000)),
            min_changed_items=rule.take("min_changed_items", int, check=checks.between(0, 1000)),
        ),
        min_effect=rule.take("min_effect", float, check=checks.fraction),
        max_error_rate=rule.take("max_error_rate", float, check=checks.fraction),
        min_usable_day_share=rule.take("min_usable_day_share", float, check=checks.share),
        min_day_item_share=rule.take("min_day_item_share", float, check=checks.share),
        min_item_share=rule.take("min_item_share", float, check=checks.share),
        did_confidence=control.take("did_confidence", float, check=checks.confidence),
        z=z,
        mde=MdeParams(
            z_confidence=z,
            z_power=mde.take("z_power", float, check=checks.between(0, 10)),
            two_window_factor=mde.take("two_window_factor", float, check=checks.between(1, 10)),
        ),
    )


def _refuse_unreachable(params: RuleParams, grid: Table, *, horizon_days: int) -> None:
    two_windows = params.baseline_days + 2 * params.window_days
    if horizon_days < two_windows:
        grid.refuse(
            "horizon_days",
            f"is {horizon_days}, but a change takes a baseline and two windows, {two_windows} days, so none could ever "
            "be declared; lengthen the horizon or shorten the windows",
        )
    lengths = {"baseline_days": params.baseline_days, "window_days": params.window_days}
    for key, days in lengths.items():
        if params.mode == "canaryd" and required_days(days, params.min_usable_day_share) < 2:
            grid.refuse(
                key,
                f"is {days}, of which rule.min_usable_day_share asks for fewer than 2 days, and one day shows no "
                "variation between days, so the day leg could not be computed; lengthen the period or raise the share",
            )


def required_days(days: int, share: float) -> int:
    """Return the fewest usable days that are at least `share` of a period.

    >>> required_days(10, 0.7), required_days(10, 0.71)
    (7, 8)
    """
    return next(count for count in range(days + 1) if count / days >= share)


def _headroom(table: Table) -> HeadroomParams:
    high, low = table.take("high", float, check=checks.share), table.take("low", float, check=checks.fraction)
    if low >= high:
        table.refuse("low", f"is {low:g}, but must be below headroom.high = {high:g}")
    table.done()
    return HeadroomParams(high=high, low=low)


def _early_warning(table: Table, rule: RuleParams) -> EarlyWarningParams:
    streams: list[Any] = table.take("streams", list, check=checks.each_once(get_args(Stream)))
    thetas: list[Any] = table.take("thetas", list, check=checks.odds)
    direction = table.take("direction", str, check=checks.one_of(*get_args(Direction)))
    params = EarlyWarningParams(
        alpha=table.take("alpha", float, check=checks.fraction),
        streams=tuple(cast("Stream", stream) for stream in streams),
        direction=cast("Direction", direction),
        thetas=tuple(float(theta) for theta in thetas),
        baseline_days=rule.baseline_days,
        freeze_days=table.take("freeze_days", int, check=checks.between(1, 3660)),
        max_segment_days=table.take("max_segment_days", int, check=checks.between(rule.baseline_days + 1, 3660)),
        min_coverage=rule.min_day_item_share,
        rank_decimals=table.take("rank_decimals", int, check=checks.between(3, 12)),
        prior_single_weight=table.take("prior_single_weight", float, check=checks.between(0, 1)),
        prior_block_days=table.take("prior_block_days", int, check=checks.between(1, 366)),
        change_set_ratio=table.take("change_set_ratio", float, check=checks.between(1, 1e6)),
    )
    table.done()
    return params


def _sentinels(table: Table) -> SentinelParams:
    params = SentinelParams(
        false_alarms_per_year=table.take("false_alarms_per_year", float, check=checks.between(1e-6, 10)),
        runs_per_year=table.take("runs_per_year", int, check=checks.between(1, 366)),
        min_replicates=table.take("min_replicates", int, check=checks.between(2, 100)),
        collapse_min_moved=table.take("collapse_min_moved", int, check=checks.between(1, 1000)),
        collapse_min_share=table.take("collapse_min_share", float, check=checks.share),
        collapse_slots=table.take("collapse_slots", int, check=checks.between(1, 366)),
    )
    table.done()
    return params


def _only(table: Table, key: str) -> float:
    value = table.take(key, float, check=checks.fraction)
    table.done()
    return value


def _judge(table: Table) -> JudgeRule:
    rule = JudgeRule(
        primary=table.take("primary", bool),
        max_anchors_moved=table.take("max_anchors_moved", int, check=checks.between(0, 1000)),
    )
    table.done()
    return rule
