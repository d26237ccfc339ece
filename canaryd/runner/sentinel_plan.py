"""Whether the sentinels of a panel can move at all, checked when their series is registered."""

from __future__ import annotations

from canaryd.errors import ConfigError
from canaryd.panel import Panel
from canaryd.prereg import Prereg


def planned_false_alarms(panel: Panel, protocol: Prereg) -> float | None:
    """Return the false alarms a year that the sentinels are expected to raise; None where there is no sentinel.

    Each is taken as an item that is always right over the registered baseline days, until there is a real baseline.

    Raises:
        ConfigError: a sentinel could never move, not even if every replicate of a run failed.
    """
    from canaryd.stats.sentinel import SentinelBaseline, false_alarms_per_year, sentinel_reach

    items = [item for item in panel.items if item.sentinel]
    if not items:
        return None
    params, days = protocol.sentinels, protocol.rule.baseline_days
    alpha = params.alpha(len(items))
    planned = [(SentinelBaseline.perfect(days * item.replicates), item.replicates) for item in items]
    for item, (baseline, replicates) in zip(items, planned, strict=True):
        reach = sentinel_reach(baseline, replicates, alpha=alpha)
        if not reach.can_move or replicates < params.min_replicates:
            where = f"{panel.path}:{panel.lines[item.item_id]}: sentinel {item.item_id!r}"
            needed = max(reach.needed_replicates or replicates, params.min_replicates)
            longer = f", or a baseline of {reach.needed_baseline} samples" if reach.needed_baseline else ""
            raise ConfigError(
                f"{where} could never move: with {baseline.n} baseline samples and {replicates} replicates a run the "
                f"smallest tail is {reach.tail:.2g}, and the registered level is {alpha:.2g}; it needs {needed} "
                f"replicates{longer}"
            )
    return false_alarms_per_year(planned, alpha=alpha, params=params)
