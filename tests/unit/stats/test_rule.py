"""The two-window rule on whole panels, under the recommended registration."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from canaryd import prereg
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import DayLeg, Estimate, TooFew
from canaryd.stats.evaluable import PanelShape, Period, PeriodEvidence, WindowEvidence
from canaryd.stats.rule import (
    Reference,
    WindowData,
    WindowState,
    arm_state,
    decide_window,
    decide_windows,
    hit_clauses,
    judge,
)
from canaryd.windows import Grid

PARAMS = prereg.load(Path(__file__).parents[3] / "prereg.example.toml").rule
GRID = Grid(date(2027, 1, 1), PARAMS.baseline_days, PARAMS.window_days)
ITEMS = [f"i{n:02d}" for n in range(60)]
PANEL = PanelShape(len(ITEMS))


def _period(index, rng, *, drop=0.0, days=None, items=ITEMS):
    """Return a period in which item n passes at its own rate, less `drop`; `days` are those with samples."""
    covered = GRID.days_of(index) if days is None else days
    rates = np.clip(np.linspace(0.3, 0.9, len(items)) - drop, 0, 1)
    samples = [
        (item, day, float(rng.random() < rate)) for day in covered for item, rate in zip(items, rates, strict=True)
    ]
    return Period(Cells.from_samples(samples), len(samples), fingerprints=frozenset({"harness-a"} if samples else ()))


def _series(drops, *, control_drops=None, seed=5):
    rng = np.random.default_rng(seed)
    controls = [0.0] * len(drops) if control_drops is None else control_drops
    windows = [
        WindowData(index, _period(index, rng, drop=drop), {"control": _period(index, rng, drop=control)})
        for index, (drop, control) in enumerate(zip([0.0, *drops], [0.0, *controls], strict=True))
    ]
    return windows[1:], Reference(windows[0], PANEL, PARAMS)


def test_two_neighbouring_hits_are_a_change_and_the_argument_is_stored():
    windows, reference = _series([0.0, 0.3, 0.3])
    first, second, third = decide_windows(windows, against=reference)
    assert (first.verdict, second.verdict) == ("insufficient_data", "no_change_detected")
    assert (third.verdict, third.direction, third.attribution) == ("change", "down", "model")
    stored = json.loads(json.dumps(dict(third.clauses), allow_nan=False))
    assert [clause["clause"] for clause in stored["window"]["hit"]] == ["item_leg", "day_leg", "min_effect"]
    assert all(clause["passed"] for clause in stored["window"]["evaluable"])
    assert stored["window"]["estimate"]["delta"] == pytest.approx(third.estimate.delta)
    assert stored["attribution"]["controls"]["control"]["call"] == "model"
    assert stored["controls"]["control"]["previous"]["state"] == "null"


def test_a_rise_is_found_with_the_same_voice():
    windows, reference = _series([-0.3, -0.3])
    decision = decide_windows(windows, against=reference)[-1]
    assert (decision.verdict, decision.direction, decision.attribution) == ("change", "up", "model")


def test_a_drop_of_both_arms_is_the_platform_s():
    windows, reference = _series([0.3, 0.3], control_drops=[0.3, 0.3])
    decision = decide_windows(windows, against=reference)[-1]
    assert (decision.verdict, decision.attribution) == ("change", "platform")


def test_no_change_comes_with_the_smallest_change_that_could_have_been_seen():
    windows, reference = _series([0.0, 0.0])
    decision = decide_windows(windows, against=reference)[-1]
    assert decision.verdict == "no_change_detected"
    assert 0.05 < decision.mde.one_window < decision.mde.two_windows < 0.12
    assert decision.clauses["mde"]["items"] == len(ITEMS)


def test_windows_on_both_sides_of_a_gap_are_no_neighbours():
    windows, reference = _series([0.3, 0.3, 0.3])
    gap = WindowData(2, Period(), {"control": Period()})
    decisions = decide_windows([windows[0], gap, windows[2]], against=reference)
    assert [decision.verdict for decision in decisions] == ["insufficient_data", "not_evaluable", "not_evaluable"]
    assert decisions[1].reasons == ("no_data", "too_few_days", "too_few_items")
    assert decisions[2].reasons == ("previous_window",)
    with pytest.raises(ValueError, match="window 3 is judged with the window before it"):
        decide_window(windows[2], windows[0], against=reference)
    with pytest.raises(ValueError, match="window 2 is judged"):
        decide_window(windows[1], None, against=reference)


def test_a_window_with_too_few_usable_days_decides_nothing():
    windows, reference = _series([0.3, 0.3])
    few = _period(2, np.random.default_rng(1), drop=0.3, days=GRID.days_of(2)[:6])
    decision = decide_windows([windows[0], replace(windows[1], tracked=few)], against=reference)[-1]
    assert (decision.verdict, decision.reasons) == ("not_evaluable", ("too_few_days",))


def test_a_day_with_fewer_than_the_registered_share_of_items_is_no_usable_day():
    windows, reference = _series([0.3, 0.3])
    rng, days = np.random.default_rng(1), GRID.days_of(2)
    whole = _period(2, rng, drop=0.3, days=days[:6])
    most = _period(2, rng, drop=0.3, days=days[6:], items=ITEMS[:47])
    scores = whole.scores.plus(most.scores)
    window = replace(windows[1], tracked=Period(scores, 548, fingerprints=whole.fingerprints))
    decision = decide_windows([windows[0], window], against=reference)[-1]
    assert decision.reasons == ("too_few_days",)


def test_a_bad_day_alone_declares_nothing():
    rng = np.random.default_rng(11)
    windows, reference = _series([0.0, 0.0])
    days = GRID.days_of(2)
    good, bad = _period(2, rng, days=days[:4] + days[5:]), _period(2, rng, drop=0.12, days=days[4:5])
    window = replace(windows[1], tracked=Period(good.scores.plus(bad.scores), 600, fingerprints=good.fingerprints))
    assert decide_windows([windows[0], window], against=reference)[-1].verdict == "no_change_detected"


def test_one_cluster_is_too_few_and_raises_no_alarm():
    windows, reference = _series([0.3, 0.3])
    one = replace(reference, panel=PanelShape(len(ITEMS), dict.fromkeys(ITEMS, "one-template")))
    decision = decide_windows(windows, against=one)[-1]
    assert isinstance(decision.estimate, TooFew)
    assert (decision.verdict, decision.reasons) == ("not_evaluable", ("too_few_clusters",))


def test_outcome_failures_are_errors_in_mode_prereg_only():
    windows, reference = _series([0.0, 0.0])
    tracked = windows[0].tracked
    refused = replace(windows[0], tracked=replace(tracked, attempts=660, outcome_failures=60))
    assert arm_state(refused, None, against=reference).reasons == ()
    published = replace(reference, params=replace(PARAMS, mode="prereg"))
    assert arm_state(refused, None, against=published).reasons == ("error_rate",)


def test_harness_failures_at_the_limit_are_too_many():
    windows, reference = _series([0.0])
    tracked = windows[0].tracked
    states = [
        arm_state(
            replace(windows[0], tracked=replace(tracked, attempts=780, harness_failures=count)), None, against=reference
        )
        for count in (38, 39)
    ]
    assert [state.reasons for state in states] == [(), ("error_rate",)]


def test_a_control_with_another_harness_cannot_attribute():
    windows, reference = _series([0.3, 0.3])
    control = replace(windows[1].controls["control"], fingerprints=frozenset({"harness-b"}))
    decision = decide_windows([windows[0], replace(windows[1], controls={"control": control})], against=reference)[-1]
    assert (decision.verdict, decision.attribution) == ("change", "unattributed")
    assert decision.clauses["attribution"]["controls"]["control"]["not_evaluable"] == ["harness"]


def test_an_unfinished_window_is_pending_whatever_it_shows():
    windows, reference = _series([0.3, 0.3])
    decision = decide_windows([windows[0], replace(windows[1], complete=False)], against=reference)[-1]
    assert (decision.state, decision.verdict, decision.reasons) == ("pending", "pending", ("incomplete",))


def test_a_decision_reads_no_window_but_its_own_two():
    windows, reference = _series([0.3, 0.3, 0.3, 0.0])
    chain = decide_windows(windows, against=reference)
    assert decide_window(windows[2], windows[1], against=reference) == chain[2]


def _estimate(delta, *, se=0.004):
    return Estimate(
        status="ok",
        decidable=True,
        delta=delta,
        se_cr1=se,
        se_cr2=se,
        se_floor=None,
        se_used=se,
        df=59,
        confidence=0.99,
        items_paired=60,
        items_changed=60,
        clusters=60,
        dropped=(),
        day=DayLeg(se, 20, 20, 10, floored=False),
    )


@pytest.mark.parametrize(
    ("delta", "counts"),
    [(0.67 - 0.7, True), (0.7 - 0.67, True), (-0.03, True), (0.03 - 1e-11, False), (-0.0299, False)],
)
def test_exactly_the_minimum_effect_counts_in_spite_of_binary_fractions(delta, counts):
    clauses = {clause.name: clause.passed for clause in hit_clauses(_estimate(delta), params=PARAMS)}
    assert clauses == {"item_leg": True, "day_leg": True, "min_effect": counts}


def test_an_interval_that_touches_zero_does_not_exclude_it():
    estimate = _estimate(-0.05)
    at_the_edge = replace(estimate, delta=-estimate.half_width_item)
    assert not hit_clauses(at_the_edge, params=PARAMS)[0].passed
    no_days = replace(_estimate(-0.5), day=None)
    assert [clause.passed for clause in hit_clauses(no_days, params=PARAMS)] == [True, False, True]


def test_hits_of_opposite_signs_are_no_change():
    period = PeriodEvidence(600, 0, frozenset({"a"}), 10, 10)
    down, up = (
        WindowState(WindowEvidence(index, True, period, _estimate(delta)), state, ())
        for index, delta, state in ((1, -0.1, "hit_down"), (2, 0.1, "hit_up"))
    )
    assert judge(up, down).verdict == "no_change_detected"
    again = replace(down, evidence=replace(down.evidence, index=2))
    assert judge(again, down).direction == "down"


def test_what_one_arm_caught_up_alone_is_in_its_own_delta_and_not_in_the_difference():
    windows, reference = _series([0.0, 0.3, 0.3])
    late = [(item, GRID.days_of(2)[0]) for item in ITEMS[:7]]
    apart = [windows[0], replace(windows[1], apart={"control": late}), windows[2]]
    together, parted = (decide_windows(each, against=reference)[-1] for each in (windows, apart))
    assert parted.estimate == together.estimate
    (before, after) = (each.clauses["attribution"]["controls"]["control"] for each in (together, parted))
    assert before["control_pooled"] == after["control_pooled"]
    assert before["difference"] != after["difference"]
    dropped = {
        arm: Cells(cell for cell in windows[1].arm(arm).scores if (cell.item_id, cell.day) not in late)
        for arm in (None, "control")
    }
    alone = replace(
        windows[1],
        tracked=replace(windows[1].tracked, scores=dropped[None]),
        controls={"control": replace(windows[1].controls["control"], scores=dropped["control"])},
    )
    expected = decide_windows([windows[0], alone, windows[2]], against=reference)[-1]
    assert expected.clauses["attribution"]["controls"]["control"]["difference"] == after["difference"]
