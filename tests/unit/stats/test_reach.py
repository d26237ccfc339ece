"""What a registration can reach at all."""

from dataclasses import replace
from pathlib import Path

import pytest

from canaryd import prereg
from canaryd.stats.reach import PlannedPanel, planned_mde, total_collapse

PARAMS = prereg.load(Path(__file__).parents[3] / "prereg.example.toml").rule


def _panel(items, templates=None):
    return PlannedPanel({f"i{n}": f"t{n % (templates or items)}" for n in range(items)})


@pytest.mark.parametrize(
    ("items", "templates", "verdict"),
    [(5, None, "change"), (4, None, "not_evaluable"), (80, 4, "not_evaluable"), (80, 5, "change")],
)
def test_a_total_collapse_is_declared_iff_the_clusters_can_carry_it(items, templates, verdict):
    assert total_collapse(_panel(items, templates), params=PARAMS).verdict == verdict


def test_a_confidence_beyond_the_panel_is_never_reached():
    certain = replace(PARAMS, estimate=replace(PARAMS.estimate, confidence=1 - 1e-9))
    assert total_collapse(_panel(5), params=certain).verdict == "no_change_detected"
    assert total_collapse(_panel(60), params=certain).verdict == "change"


def test_the_published_mode_has_its_own_reach():
    published = replace(PARAMS, mode="prereg")
    assert total_collapse(_panel(2), params=published).verdict == "change"
    assert total_collapse(_panel(8, 1), params=published).verdict == "not_evaluable"


def test_an_item_without_an_estimate_counts_as_a_coin_flip():
    blind = planned_mde(_panel(10), params=PARAMS)
    known = planned_mde(replace(_panel(10), information={f"i{n}": 0.1 for n in range(10)}), params=PARAMS)
    half = planned_mde(replace(_panel(10), information={f"i{n}": 0.1 for n in range(5)}), params=PARAMS)
    assert known.se < half.se < blind.se
    assert blind.se == pytest.approx((0.25 * (1 / 20 + 1 / 10) / 10) ** 0.5)
    often = planned_mde(replace(_panel(10), replicates={f"i{n}": 4 for n in range(10)}), params=PARAMS)
    assert often.se == pytest.approx(blind.se / 2)
