"""The operating characteristics of a registration on its own panel: what is simulated, and with which pass rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from canaryd.prereg import Planning, Prereg
from canaryd.records import Item, JsonValue

if TYPE_CHECKING:
    from canaryd.stats.simulate import SimulationPlan


def assumed_rates(items: Sequence[Item], planning: Planning) -> dict[str, float]:
    """Return a pass rate for each item from the assumed Beta distribution: its quantiles (i - 1/2)/n, in panel order.

    Quantiles in place of draws, so that the same registration on the same panel plans with the same rates everywhere.
    """
    from scipy.stats import beta

    mean, concentration = planning.mean_pass_rate, planning.pass_rate_concentration
    spread = beta(mean * concentration, (1 - mean) * concentration)
    count = len(items)
    return {item.item_id: float(spread.ppf((place + 0.5) / count)) for place, item in enumerate(items)}


def planned_simulation(
    protocol: Prereg, items: Sequence[Item], *, rates: Mapping[str, float], has_control: bool, monitor_series: int = 0
) -> SimulationPlan:
    """Return the simulation of a registration on the items that it measures; the early warning follows some series.

    Raises:
        ValueError: an item has no pass rate, or the items leave nothing to simulate.
    """
    from canaryd.stats.simulate import DayShock, SimulationPlan

    if missing := [item.item_id for item in items if item.item_id not in rates]:
        raise ValueError(f"item {missing[0]!r} has no pass rate")
    planning = protocol.planning
    return SimulationPlan(
        pass_rates=tuple(rates[item.item_id] for item in items),
        clusters=tuple(item.cluster for item in items),
        rule=protocol.rule,
        early_warning=protocol.early_warning,
        series=planning.series,
        monitor_series=min(monitor_series, planning.series),
        control=has_control,
        shocks=tuple(DayShock(sd) for sd in planning.day_shocks),
        drops=planning.drops,
    )


def short_simulation(protocol: Prereg, items: Sequence[Item], *, has_control: bool) -> JsonValue:
    """Return what `register` stores: the rule alone, on assumed pass rates, with its seed and its assumptions."""
    import numpy as np

    from canaryd.stats.simulate import operating_characteristics

    planning = protocol.planning
    plan = planned_simulation(protocol, items, rates=assumed_rates(items, planning), has_control=has_control)
    found = operating_characteristics(plan, np.random.default_rng(planning.seed))
    return {"seed": planning.seed, "rates": "assumed", **found.to_json()}
