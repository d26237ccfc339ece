"""The registration: the only place where a protocol number lives, parsed whole and refused where it makes no sense.

Nothing has a default here: what is not registered does not exist. `parse` reads one file; `check_plan` holds what it
says against the panel and the controls, before any data exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from canaryd.errors import ConfigError
from canaryd.hashing import digest
from canaryd.stats.params import EstimateParams, HeadroomParams, MdeParams, Mode, RuleParams, TokenParams
from canaryd.stats.study_params import CalibrationParams, PositiveControl, SeenIn, ValidationParams
from canaryd.stats.watch_params import Direction, EarlyWarningParams, SentinelParams, Stream
from canaryd.tables import Table, parse_table

if TYPE_CHECKING:
    from canaryd.stats.reach import PlannedPanel


@dataclass(frozen=True, slots=True)
class Statement:
    """What the registration says in words, one sentence an entry; it is stored and printed, and decides nothing."""

    exclusions: tuple[str, ...]
    secondary_analyses: tuple[str, ...]
    threats: tuple[str, ...]
    publication: str


@dataclass(frozen=True, slots=True)
class Planning:
    """What is simulated of a registration before there are data: assumed pass rates, and the worlds it is put into."""

    mean_pass_rate: float
    pass_rate_concentration: float
    series: int
    drops: tuple[float, ...]
    day_shocks: tuple[float, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Prereg:
    """One registration; effects, rates and shares are fractions, lengths are days."""

    digest: str
    source: str
    horizon_days: int
    rule: RuleParams
    target_mde: float
    tokens: TokenParams
    outcome_alpha: float
    headroom: HeadroomParams
    localisation_q: float
    early_warning: EarlyWarningParams
    sentinels: SentinelParams
    calibration: CalibrationParams
    validation: ValidationParams
    planning: Planning
    statement: Statement


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
    mode = cast("Mode", root.take("mode", str, check=_one_of("canaryd", "prereg")))
    grid, rule, control, mde = (root.table(name) for name in ("grid", "rule", "control", "mde"))
    horizon_days = grid.take("horizon_days", int, check=_between(1, 36_500))
    params = _rule(rule, grid, mode=mode, control=control, mde=mde)
    _refuse_unreachable(params, grid, horizon_days=horizon_days)
    target_mde = mde.take("target", float, check=_fraction)
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
        calibration=_calibration(root.table("calibration")),
        validation=_validation(root.table("validation")),
        planning=_planning(root.table("planning")),
        statement=_statement(root.table("statement")),
    )
    for table in (grid, rule, control, mde, root):
        table.done()
    return prereg


def _rule(rule: Table, grid: Table, *, mode: Mode, control: Table, mde: Table) -> RuleParams:
    z = rule.take("z", float, check=_between(0.5, 10))
    return RuleParams(
        mode=mode,
        baseline_days=grid.take("baseline_days", int, check=_between(1, 366)),
        window_days=grid.take("window_days", int, check=_between(1, 366)),
        estimate=EstimateParams(
            confidence=rule.take("confidence", float, check=_confidence),
            min_df=rule.take("min_df", float, check=_between(1, 1000)),
            min_changed_items=rule.take("min_changed_items", int, check=_between(0, 1000)),
        ),
        min_effect=rule.take("min_effect", float, check=_fraction),
        max_error_rate=rule.take("max_error_rate", float, check=_fraction),
        min_usable_day_share=rule.take("min_usable_day_share", float, check=_share),
        min_day_item_share=rule.take("min_day_item_share", float, check=_share),
        min_item_share=rule.take("min_item_share", float, check=_share),
        did_confidence=control.take("did_confidence", float, check=_confidence),
        z=z,
        mde=MdeParams(
            z_confidence=z,
            z_power=mde.take("z_power", float, check=_between(0, 10)),
            two_window_factor=mde.take("two_window_factor", float, check=_between(1, 10)),
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


#: The day leg rests on the variance between the days of a period; with fewer days than this that is poorly known.
WEAK_DAY_LEG_DAYS = 7


def check_plan(prereg: Prereg, panel: PlannedPanel) -> tuple[str, ...]:
    """Return the warnings, one sentence each, about using a registration on a panel.

    Raises:
        ConfigError: no change could ever be declared, not even if every item fell from 1 to 0.
    """
    from canaryd.stats.reach import planned_mde, total_collapse

    if not panel.clusters:
        raise ConfigError(
            f"{prereg.source}: the panel has no item that is measured, so nothing can be decided; add items"
        )
    collapse = total_collapse(panel, params=prereg.rule)
    if collapse.verdict != "change":
        why = ", ".join(collapse.reasons) or "the interval is wider than the whole scale"
        raise ConfigError(
            f"{prereg.source}: no change could ever be declared on this panel of {len(panel.clusters)} items in "
            f"{len(set(panel.clusters.values()))} clusters, not even if every item fell from 1 to 0 ({why}); add "
            "items of other templates, or register rule.min_df, rule.confidence and the windows anew"
        )
    warnings = [*_weak_day_leg(prereg), *_weak_controls(prereg, panel)]
    mde = planned_mde(panel, params=prereg.rule)
    if mde.two_windows > prereg.target_mde:
        worst = "" if len(panel.information) == len(panel.clusters) else " at worst, as not every item is calibrated,"
        warnings.append(
            f"{prereg.source}: mde.target is {100 * prereg.target_mde:g} points, but{worst} the rule sees "
            f"{100 * mde.two_windows:.1f} points with the registered power; add items or samples, or longer periods"
        )
    return tuple(warnings)


def _weak_day_leg(prereg: Prereg) -> list[str]:
    rule = prereg.rule
    lengths = {"baseline_days": rule.baseline_days, "window_days": rule.window_days}
    return [
        f"{prereg.source}: grid.{key} is {days}, so the day leg may rest on {needed} days only and be very wide; "
        f"at least {WEAK_DAY_LEG_DAYS} usable days are advised"
        for key, days in lengths.items()
        if rule.mode == "canaryd" and (needed := required_days(days, rule.min_usable_day_share)) < WEAK_DAY_LEG_DAYS
    ]


def _weak_controls(prereg: Prereg, panel: PlannedPanel) -> list[str]:
    if not panel.controls:
        silent = "difference" in prereg.early_warning.streams
        idle = ", and the difference stream of the early warning stays silent" if silent else ""
        sentence = f"there is no control arm, so every change will be called unattributed{idle}"
        return [f'{prereg.source}: {sentence}; add an arm with role = "control"']
    warnings = []
    for name, items in panel.controls.items():
        if missing := sorted(set(panel.clusters) - items):
            warnings.append(
                f"{prereg.source}: control {name!r} does not run {len(missing)} of the tracked arm's "
                f"{len(panel.clusters)} items ({missing[0]!r} first), and only shared items can tell a platform change "
                "from a model change; let it run the whole panel"
            )
    return warnings


def _headroom(table: Table) -> HeadroomParams:
    high, low = table.take("high", float, check=_share), table.take("low", float, check=_fraction)
    if low >= high:
        table.refuse("low", f"is {low:g}, but must be below headroom.high = {high:g}")
    table.done()
    return HeadroomParams(high=high, low=low)


def _early_warning(table: Table, rule: RuleParams) -> EarlyWarningParams:
    streams: list[Any] = table.take("streams", list, check=_each_once(get_args(Stream)))
    thetas: list[Any] = table.take("thetas", list, check=_thetas)
    direction = table.take("direction", str, check=_one_of(*get_args(Direction)))
    params = EarlyWarningParams(
        alpha=table.take("alpha", float, check=_fraction),
        streams=tuple(cast("Stream", stream) for stream in streams),
        direction=cast("Direction", direction),
        thetas=tuple(float(theta) for theta in thetas),
        baseline_days=rule.baseline_days,
        freeze_days=table.take("freeze_days", int, check=_between(1, 3660)),
        max_segment_days=table.take("max_segment_days", int, check=_between(rule.baseline_days + 1, 3660)),
        min_coverage=rule.min_day_item_share,
        rank_decimals=table.take("rank_decimals", int, check=_between(3, 12)),
        prior_single_weight=table.take("prior_single_weight", float, check=_between(0, 1)),
        prior_block_days=table.take("prior_block_days", int, check=_between(1, 366)),
        change_set_ratio=table.take("change_set_ratio", float, check=_between(1, 1e6)),
    )
    table.done()
    return params


def _sentinels(table: Table) -> SentinelParams:
    params = SentinelParams(
        false_alarms_per_year=table.take("false_alarms_per_year", float, check=_between(1e-6, 10)),
        runs_per_year=table.take("runs_per_year", int, check=_between(1, 366)),
        min_replicates=table.take("min_replicates", int, check=_between(2, 100)),
        collapse_min_moved=table.take("collapse_min_moved", int, check=_between(1, 1000)),
        collapse_min_share=table.take("collapse_min_share", float, check=_share),
        collapse_slots=table.take("collapse_slots", int, check=_between(1, 366)),
    )
    table.done()
    return params


def _calibration(table: Table) -> CalibrationParams:
    samples = table.take("screen_samples", int, check=_between(2, 1000))
    keep_min = table.take("keep_min", float, check=_between(0, samples))
    params = CalibrationParams(
        screen_samples=samples,
        keep_min=keep_min,
        keep_max=table.take("keep_max", float, check=_between(keep_min, samples)),
        confirm_samples=table.take("confirm_samples", int, check=_between(2, 1000)),
    )
    table.done()
    return params


def _validation(table: Table) -> ValidationParams:
    streams: list[Any] = table.take("seen_in", list, check=_each_once(get_args(SeenIn)))
    controls = table.tables("controls")
    if not controls:
        table.refuse("controls", "is required: name at least one change that the instrument must see")
    params = ValidationParams(
        samples=table.take("samples", int, check=_between(2, 1000)),
        alpha=table.take("alpha", float, check=_fraction),
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
        name=table.take("name", str, check=_name),
        arm=table.optional("arm", str),
        model=table.optional("model", str),
        params=table.table("params").rest(),
        options=table.table("options").rest(),
    )
    table.done()
    return control


def _planning(table: Table) -> Planning:
    planning = Planning(
        mean_pass_rate=table.take("mean_pass_rate", float, check=_fraction),
        pass_rate_concentration=table.take("pass_rate_concentration", float, check=_between(0.1, 1000)),
        series=table.take("series", int, check=_between(100, 1_000_000)),
        drops=tuple(float(drop) for drop in table.take("drops", list, check=_numbers(-1, 1))),
        day_shocks=tuple(float(shock) for shock in table.take("day_shocks", list, check=_numbers(0, 0.5))),
        seed=table.take("seed", int, check=_between(0, 2**53)),
    )
    table.done()
    return planning


def _statement(table: Table) -> Statement:
    def sentences(key: str) -> tuple[str, ...]:
        values: list[Any] = table.take(key, list, check=_sentences)
        return tuple(values)

    statement = Statement(
        exclusions=sentences("exclusions"),
        secondary_analyses=sentences("secondary_analyses"),
        threats=sentences("threats"),
        publication=table.take("publication", str),
    )
    table.done()
    return statement


def _only(table: Table, key: str) -> float:
    value = table.take(key, float, check=_fraction)
    table.done()
    return value


def _name(value: str) -> str | None:
    return None if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,62}", value) else "must be small letters, digits, - and _"


def _one_of(*allowed: str) -> Callable[[str], str | None]:
    return lambda value: None if value in allowed else f"must be one of {', '.join(allowed)}"


def _between(low: float, high: float) -> Callable[[float], str | None]:
    return lambda value: None if low <= value <= high else f"must be between {low:g} and {high:g}"


def _fraction(value: float) -> str | None:
    return None if 0 < value < 1 else "must be above 0 and below 1 (it is a fraction: 0.03 is 3 points)"


def _share(value: float) -> str | None:
    return None if 0 < value <= 1 else "must be above 0 and at most 1 (it is a share)"


def _confidence(value: float) -> str | None:
    return None if 0.5 <= value <= 1 - 1e-12 else "must be at least 0.5 and below 1 (99 % is 0.99)"


def _each_once(known: tuple[Any, ...]) -> Callable[[list[Any]], str | None]:
    def check(values: list[Any]) -> str | None:
        good = values and all(value in known and values.count(value) == 1 for value in values)
        return None if good else f"must name each stream once, of {', '.join(known)}"

    return check


def _thetas(values: list[Any]) -> str | None:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    good = numbers and len(numbers) == len(values) and all(1 < value < 1e3 for value in numbers)
    return None if good else "must be a list of odds, each above 1"


def _numbers(low: float, high: float) -> Callable[[list[Any]], str | None]:
    def check(values: list[Any]) -> str | None:
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        good = numbers and len(numbers) == len(values) and all(low <= value <= high for value in numbers)
        return None if good else f"must be a list of numbers between {low:g} and {high:g}"

    return check


def _sentences(values: list[Any]) -> str | None:
    return None if all(isinstance(value, str) and value for value in values) else "must be a list of sentences"
