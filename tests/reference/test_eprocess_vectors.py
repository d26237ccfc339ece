"""The early warning against exact rational arithmetic, through the functions that the daemon uses."""

import json
import os
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from canaryd.stats.cells import Cells
from canaryd.stats.early_warning import day_ranks, day_table, tie_break
from canaryd.stats.eprocess import capital_path, onset_prior
from canaryd.stats.watch_params import EarlyWarningParams

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "eprocess.json"
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")

DIRECTIONS = ("drop", "rise", "either")


def _vectors():
    return json.loads(VECTORS.read_text()) if VECTORS.exists() else {"cases": [], "ranking": []}


def _params(case, direction):
    return EarlyWarningParams(
        alpha=0.01,
        streams=("score",),
        direction=direction,
        thetas=tuple(float(theta) for theta in case["thetas"]),
        baseline_days=case["n0"],
        freeze_days=case["freeze"],
        max_segment_days=365,
        min_coverage=0.5,
        rank_decimals=9,
        prior_single_weight=0.5,
        prior_block_days=10,
        change_set_ratio=20.0,
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", _vectors()["cases"], ids=lambda case: case["id"])
def test_capital_onset_and_alarm_day(case, direction):
    path = capital_path(np.array(case["ranks"]), _params(case, direction))
    expected = case["expected"]
    capital = path.capital[:, 0]
    assert capital == pytest.approx(expected[direction], rel=1e-9)
    alarms = np.flatnonzero(capital >= 100)
    assert (int(alarms[0]) + 1 if len(alarms) else None) == expected["alarm_day"][direction]
    if direction == "drop":
        for day, exact in expected["exact_drop"].items():
            assert capital[int(day) - 1] == pytest.approx(float(Fraction(exact)), rel=1e-12)
    if direction != "either":
        assert path.onset[-1, 0] == expected[f"onset_{direction}"]


@pytest.mark.parametrize("case", _vectors()["ranking"], ids=lambda case: case["id"])
def test_ranks_of_day_scores_with_their_tie_breaks(case):
    first = date.fromisoformat(case["first_day"])
    samples = [
        (f"item-{column}", first + timedelta(row), float(score))
        for row, scores in enumerate(case["scores"])
        for column, score in enumerate(scores)
        if score is not None
    ]
    names = {"series": case["series_id"], "stream": case["stream"]}
    items = {item for item, _, _ in samples}
    table = day_table(Cells.from_samples(samples).day_means(), items, min_coverage=0.5)
    assert len(table.days) == len(case["scores"])
    assert [tie_break(day, **names) for day in table.days] == case["expected"]["u"]
    ranks = day_ranks(table, **names, decimals=9)
    assert ranks.tolist() == case["expected"]["ranks"]


def test_onset_prior():
    vectors = _vectors()
    prior = onset_prior(12, _params(vectors["cases"][0], "either"))
    assert prior == pytest.approx([float(Fraction(exact)) for exact in vectors["prior_first_12"]], rel=1e-12)
