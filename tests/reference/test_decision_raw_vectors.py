"""The whole way from scores to verdicts, in both modes, against pandas, statsmodels and fractions."""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from canaryd.stats.cells import Cells
from canaryd.stats.evaluable import PanelShape, Period
from canaryd.stats.params import EstimateParams, MdeParams, RuleParams
from canaryd.stats.rule import Reference, WindowData, arm_state, control_evidence, decide_window, decide_windows
from canaryd.windows import Grid, utc_date

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "decision_raw.json"
DATA = json.loads(VECTORS.read_text()) if VECTORS.exists() else {"cases": []}
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")
MODES = pytest.mark.parametrize("mode", ["canaryd", "prereg"])
CASES = pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["id"])


def close(value):
    return pytest.approx(value, rel=DATA["tolerance"], abs=DATA["tolerance"])


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
        min_day_item_share=0.0,  # these cases register none: a day counts as soon as it has a score
        min_item_share=config["min_item_share"],
        did_confidence=1 - config["did_alpha"],
        z=config["z_prereg"],
        mde=MdeParams(config["z_prereg"], 0.842, 1.24),
    )


def _windows(case, params):
    """Return baseline and windows by the grid, from the runs alone."""
    grid = Grid(utc_date(datetime.fromisoformat(case["series_start"])), params.baseline_days, params.window_days)
    now = datetime.fromisoformat(case["now"])
    arms = sorted({run["arm"] for run in case["runs"]} - {"tracked"})
    return [
        WindowData(
            index,
            _period(case, "tracked", grid, index),
            {arm: _period(case, arm, grid, index) for arm in arms},
            complete=grid.has_ended(index, now),
        )
        for index in range(len(case["expected"]["windows"]) + 1)
    ]


def _period(case, arm, grid, index):
    scores, attempts, errors, fingerprints = [], 0, 0, set()
    for run in case["runs"]:
        day = utc_date(datetime.fromisoformat(run["ts"]))
        if run["arm"] != arm or grid.index_of(day) != index:
            continue
        fingerprints.add(run["fp"])
        for place, (item, score) in enumerate(zip(case["panel"], run["scores"], strict=True)):
            if place in run.get("absent", []):
                continue
            attempts += 1
            errors += score is None
            if score is not None:
                scores.append((item, day, float(score)))
    return Period(Cells.from_samples(scores), attempts, errors, fingerprints=frozenset(fingerprints))


def _setting(case, mode):
    params = _params(mode)
    baseline, *windows = _windows(case, params)
    return windows, Reference(baseline, PanelShape(len(case["panel"]), case["clusters"]), params)


@CASES
def test_statistics_of_every_window(case):
    windows, reference = _setting(case, "canaryd")
    for window, expected in zip(windows, case["expected"]["windows"], strict=True):
        for arm, control in (("tracked", None), ("control", "control")):
            if expected[arm] is None:
                assert not window.controls
                continue
            evidence = arm_state(window, control, against=reference).evidence
            figures, estimate = expected[arm], evidence.estimate
            assert evidence.complete is expected["complete"]
            assert (evidence.period.attempts, evidence.period.errors) == (figures["attempts"], figures["errors"])
            assert (evidence.period.usable_days, estimate.items_paired) == (figures["days"], figures["items_paired"])
            assert sorted(evidence.period.fingerprints) == figures["fingerprints"]
            assert estimate.status == figures["status"]
            for name in ("delta", "se_cr1", "se_used", "df"):
                assert getattr(estimate, name) == close(figures[name]), name
            assert (estimate.day.se, estimate.day.df) == close((figures["se_day"], figures["df_day"]))


@MODES
@CASES
def test_decisions_of_the_chain(case, mode):
    windows, reference = _setting(case, mode)
    decisions = decide_windows(windows, against=reference)
    shown = [
        {
            "k": decision.index,
            "state": decision.state,
            "verdict": decision.verdict,
            **({"direction": decision.direction, "attribution": decision.attribution} if decision.direction else {}),
            "reasons": list(decision.reasons),
        }
        for decision in decisions
    ]
    assert shown == case["expected"][mode]


@MODES
@CASES
def test_one_window_alone_gives_the_decision_of_the_chain(case, mode):
    windows, reference = _setting(case, mode)
    chain = decide_windows(windows, against=reference)
    for k, decision in enumerate(chain):
        assert decide_window(windows[k], windows[k - 1] if k else None, against=reference) == decision


@CASES
def test_pooled_statistics_of_every_declared_change(case):
    windows, reference = _setting(case, "canaryd")
    for decision in decide_windows(windows, against=reference):
        if decision.verdict != "change" or not windows[0].controls:
            continue
        expected = case["expected"]["pairs"][f"{decision.index - 1}-{decision.index}"]
        control = decision.clauses["attribution"]["controls"]["control"]
        assert control["difference"]["items_paired"] == expected["shared_items"]
        assert (control["not_evaluable"] == []) is expected["control_evaluable"]
        for name, figures in (("difference", expected["did"]), ("control_pooled", expected["control_pooled"])):
            assert control[name]["delta"] == close(figures["delta"])
            assert control[name]["se_used"] == close(figures["se"])
            assert control[name]["df"] == close(figures["df"])


def test_control_evidence_is_right_also_where_no_change_is_declared():
    seen = 0
    for case in DATA["cases"]:
        windows, reference = _setting(case, "canaryd")
        for pair, expected in case["expected"]["pairs"].items():
            k = int(pair.split("-")[1])
            both = windows[k - 2], windows[k - 1]
            states = tuple(arm_state(window, "control", against=reference) for window in both)
            evidence = control_evidence(both, "control", states=states, against=reference)
            assert evidence.difference.delta == close(expected["did"]["delta"])
            assert evidence.difference.se_used == close(expected["did"]["se"])
            assert evidence.pooled.delta == close(expected["control_pooled"]["delta"])
            assert evidence.pooled.se_used == close(expected["control_pooled"]["se"])
            # The vectors leave the harness out of `control_evaluable`; here a control whose harness changed is silent.
            assert (set(evidence.reasons) <= {"harness"}) is expected["control_evaluable"]
            seen += 1
    assert seen == sum(len(case["expected"]["pairs"]) for case in DATA["cases"])


def test_series_origin_is_the_midnight_of_its_first_day():
    for case in DATA["cases"]:
        grid = Grid(utc_date(datetime.fromisoformat(case["series_start"])), 10, 10)
        assert grid.end_of(0) == datetime.fromisoformat(case["expected"]["baseline"]["end"])
        assert grid.end_of(0) - timedelta(days=10) == datetime.fromisoformat(case["expected"]["baseline"]["start"])
