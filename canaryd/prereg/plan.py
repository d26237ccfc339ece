"""A registration held against the panel and the controls that it is meant for, before there are data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canaryd.errors import ConfigError
from canaryd.prereg.model import Prereg
from canaryd.prereg.parse import required_days

if TYPE_CHECKING:
    from canaryd.stats.reach import PlannedPanel

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
