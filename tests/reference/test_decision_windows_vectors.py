"""The two-window rule on window-level figures, in both modes, against expectations written by hand."""

import json
import os
from pathlib import Path

import pytest

from canaryd.stats.attribution import ControlEvidence
from canaryd.stats.estimate import DayLeg, Estimate, TooFew
from canaryd.stats.evaluable import PanelShape, PeriodEvidence, WindowEvidence
from canaryd.stats.params import EstimateParams, MdeParams, RuleParams
from canaryd.stats.rule import attribute_change, judge, window_state

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "decision_windows.json"
DATA = json.loads(VECTORS.read_text()) if VECTORS.exists() else {"cases": []}
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")
NOTHING = TooFew("no_overlap", None, 0, ())


def _params(mode):
    config = DATA["config"]
    return RuleParams(
        mode=mode,
        baseline_days=config["baseline_days"],
        window_days=config["window_days"],
        estimate=EstimateParams(1 - config["alpha"], config["min_df"], min_changed_items=5),
        min_effect=config["min_effect"],
        max_error_rate=config["max_error_rate"],
        min_usable_day_share=config["min_days"] / config["window_days"],
        min_day_item_share=config["min_item_share"],
        min_item_share=config["min_item_share"],
        did_confidence=1 - config["did_alpha"],
        z=config["z_prereg"],
        mde=MdeParams(config["z_prereg"], 0.842, 1.24),
    )


def _estimate(figures, *, items, min_df):
    day = None
    if "se_day" in figures:
        day = DayLeg(figures["se_day"], figures["df_day"], 10, 10, floored=False)
    return Estimate(
        status=figures.get("status", "ok"),
        decidable=figures["df"] >= min_df,
        delta=figures["delta"],
        se_cr1=figures.get("se_cr1", figures.get("se")),
        se_cr2=figures.get("se_used", figures.get("se")),
        se_floor=None,
        se_used=figures.get("se_used", figures.get("se")),
        df=figures["df"],
        confidence=0.99,
        items_paired=items,
        items_changed=items,
        clusters=items,
        dropped=(),
        day=day,
    )


def _states(case, params):
    panel = PanelShape(case["panel_items"])
    base = case["baseline"]
    baseline = PeriodEvidence(
        base["attempts"], base["errors"], frozenset(base["fingerprints"]), base["days"], params.baseline_days
    )
    states = {}
    for window in case["windows"]:
        arm = window["tracked"]
        period = PeriodEvidence(
            arm["attempts"], arm["errors"], frozenset(arm["fingerprints"]), arm["days"], params.window_days
        )
        estimate = _estimate(arm, items=arm["items_paired"], min_df=params.estimate.min_df)
        evidence = WindowEvidence(window["k"], window["complete"], period, estimate)
        states[window["k"]] = window_state(evidence, baseline, panel=panel, params=params)
    return states


def _controls(case, k, params):
    pair = case["pairs"].get(f"{k - 1}-{k}")
    windows = {window["k"]: window["control"] for window in case["windows"]}
    if windows[k] is None:
        return {}

    def estimate(figures, items=78):
        return NOTHING if figures is None else _estimate(figures, items=items, min_df=params.estimate.min_df)

    return {
        "control": ControlEvidence(
            difference=estimate(pair and pair["did"]),
            pooled=estimate(pair and pair["control_pooled"]),
            previous=estimate(windows[k - 1]),
            current=estimate(windows[k]),
            reasons=() if pair and pair["control_evaluable"] else ("error_rate",),
        )
    }


@pytest.mark.parametrize("mode", ["canaryd", "prereg"])
@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["id"])
def test_every_window_of_the_chain(case, mode):
    params = _params(mode)
    states = _states(case, params)
    for expected in case["expected"][mode]:
        k = expected["k"]
        judgement = judge(states[k], states.get(k - 1))
        assert states[k].state == expected["state"], k
        assert judgement.verdict == expected["verdict"], k
        assert judgement.direction == expected.get("direction"), k
        if "reasons" in expected:
            assert list(judgement.reasons) == expected["reasons"], k
        if judgement.direction:
            call = attribute_change(judgement.direction, _controls(case, k, params), params=params).call
            assert call == expected["attribution"], k
