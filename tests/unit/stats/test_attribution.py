"""Whose change it is: pooled differences on shared items, several controls, and the published rule."""

from datetime import date, timedelta

import pytest

from canaryd.stats.attribution import (
    ControlEvidence,
    attribute,
    attribute_by_control_hits,
    difference_in_differences,
    excludes_zero,
)
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import Estimate, TooFew
from canaryd.stats.params import EstimateParams

PARAMS = EstimateParams(confidence=0.99, min_df=4, min_changed_items=5)
NOTHING = TooFew("no_overlap", None, 0, ())


def _estimate(delta, se=0.02, *, df=50.0):
    return Estimate(
        status="ok",
        decidable=df >= 4,
        delta=delta,
        se_cr1=se,
        se_cr2=se,
        se_floor=None,
        se_used=se,
        df=df,
        confidence=0.99,
        items_paired=51,
        items_changed=51,
        clusters=51,
        dropped=(),
    )


def _control(difference, pooled, *, reasons=()):
    return ControlEvidence(_estimate(difference), _estimate(pooled), _estimate(pooled), _estimate(pooled), reasons)


@pytest.mark.parametrize(
    ("control", "call"),
    [
        (_control(-0.1, 0.0), "model"),
        (_control(-0.1, -0.1), "model"),
        (_control(-0.01, -0.1), "platform"),
        (_control(0.1, 0.0), "unattributed"),
        (_control(-0.01, 0.1), "unattributed"),
        (_control(-0.01, -0.01), "unattributed"),
        (_control(-0.1, 0.0, reasons=("error_rate",)), "unattributed"),
    ],
)
def test_one_control(control, call):
    attribution = attribute("down", {"c": control}, confidence=0.95)
    assert attribution.call == attribution.clauses["call"] == attribution.clauses["controls"]["c"]["call"] == call


def test_several_controls_must_agree_and_none_blames_nobody():
    model, platform = _control(-0.1, 0.0), _control(0.0, -0.1)
    assert attribute("down", {"a": model, "b": model}, confidence=0.95).call == "model"
    assert attribute("down", {"a": model, "b": platform}, confidence=0.95).call == "unattributed"
    assert attribute("down", {}, confidence=0.95).call == "unattributed"
    assert attribute_by_control_hits("down", {}, z=2.576).call == "unattributed"


def test_too_few_clusters_exclude_nothing():
    assert excludes_zero(_estimate(-1.0), direction="down", confidence=0.95)
    assert not excludes_zero(_estimate(-1.0, df=3.2), direction="down", confidence=0.95)
    assert not excludes_zero(NOTHING, direction="down", confidence=0.95)


def test_the_published_rule_asks_the_control_to_be_significant_twice():
    def evidence(previous, current):
        return {"c": ControlEvidence(NOTHING, NOTHING, previous, current, ())}

    down, still = _estimate(-0.1), _estimate(0.0)
    assert attribute_by_control_hits("down", evidence(down, down), z=2.576).call == "platform"
    assert attribute_by_control_hits("down", evidence(down, still), z=2.576).call == "model"
    assert attribute_by_control_hits("up", evidence(down, down), z=2.576).call == "model"
    assert attribute_by_control_hits("down", evidence(down, NOTHING), z=2.576).call == "unattributed"


def _period(start, scores):
    return Cells.from_samples(
        (item, start + timedelta(days=day), value)
        for item, values in scores.items()
        for day, value in enumerate(values)
    )


def test_a_shock_that_hits_both_arms_cancels_inside_every_item():
    before, after = date(2027, 1, 1), date(2027, 2, 1)
    base = {f"i{n}": [1.0, 0.5, 1.0, 0.5 + n / 20] for n in range(6)}
    shocked = {item: [value - 0.4 for value in values] for item, values in base.items()}
    lower = {item: [value - 0.1 * (n % 2 + 1) for value in values] for n, (item, values) in enumerate(base.items())}
    arm = _period(before, base), _period(after, shocked)
    same = difference_in_differences(arm, arm, clusters={}, params=PARAMS)
    assert same.delta == pytest.approx(0, abs=1e-12)
    assert same.status == "zero_variance"
    assert same.se_used == pytest.approx(same.se_floor)
    further = difference_in_differences(arm, (arm[0], _period(after, lower)), clusters={}, params=PARAMS)
    assert further.delta == pytest.approx(-0.4 + 0.15)


def test_only_shared_items_take_part():
    before, after = date(2027, 1, 1), date(2027, 2, 1)
    tracked = (
        _period(before, {"a": [1.0], "b": [1.0], "c": [1.0]}),
        _period(after, {"a": [0.0], "b": [0.0], "c": [1.0]}),
    )
    control = _period(before, {"a": [1.0], "b": [0.0]}), _period(after, {"a": [1.0], "b": [0.0]})
    difference = difference_in_differences(tracked, control, clusters={}, params=PARAMS)
    assert (difference.items_paired, difference.dropped, difference.delta) == (2, ("c",), -1.0)
