"""What a registered rule can reach at all on its panel, asked of the rule itself before any data exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from canaryd.stats.cells import Cell, Cells
from canaryd.stats.evaluable import PanelShape, Period
from canaryd.stats.params import RuleParams
from canaryd.stats.power import Mde, predicted_mde
from canaryd.stats.rule import Decision, Reference, WindowData, decide_windows

#: The variance of a coin flip: the most that one score in [0, 1] can have.
LARGEST_INFORMATION = 0.25


@dataclass(frozen=True, slots=True)
class PlannedPanel:
    """What a registration is to be used on, sentinels left out.

    `clusters` holds every item with its template, `replicates` the samples per item and day where that is not one,
    `information` the estimated p(1 - p) of the items for which there is one, `controls` the items of each control.
    """

    clusters: Mapping[str, str]
    replicates: Mapping[str, int] = field(default_factory=dict)
    information: Mapping[str, float] = field(default_factory=dict)
    controls: Mapping[str, frozenset[str]] = field(default_factory=dict)


def total_collapse(panel: PlannedPanel, *, params: RuleParams) -> Decision:
    """Return the decision on window 2 when every item falls from always right to always wrong after the baseline.

    If the rule does not declare even that, it can never declare anything.
    """
    start = date(2000, 1, 1)

    def period(index: int, score: float) -> WindowData:
        length = params.window_days if index else params.baseline_days
        first = start + timedelta(days=params.baseline_days + params.window_days * (index - 1) if index else 0)
        cells = Cells(
            Cell(item, first + timedelta(days=day), panel.replicates.get(item, 1), total, total)
            for item in panel.clusters
            for day in range(length)
            for total in (score * panel.replicates.get(item, 1),)
        )
        attempts = length * sum(panel.replicates.get(item, 1) for item in panel.clusters)
        return WindowData(index, Period(cells, attempts, fingerprints=frozenset({"planned"})))

    shape = PanelShape(len(panel.clusters), panel.clusters)
    reference = Reference(period(0, 1.0), shape, params)
    return decide_windows([period(1, 0.0), period(2, 0.0)], against=reference)[-1]


def planned_mde(panel: PlannedPanel, *, params: RuleParams) -> Mde:
    """Return the MDE of one window and of the rule; an item without an estimate counts as a coin flip, the worst."""
    per_day = [panel.replicates.get(item, 1) for item in panel.clusters]
    return predicted_mde(
        [panel.information.get(item, LARGEST_INFORMATION) for item in panel.clusters],
        samples_baseline=[params.baseline_days * count for count in per_day],
        samples_window=[params.window_days * count for count in per_day],
        params=params.mde,
    )
