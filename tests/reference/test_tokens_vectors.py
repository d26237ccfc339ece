"""The log ratio of output tokens against mpmath and statsmodels."""

import json
import math
import os
from datetime import date
from pathlib import Path

import pytest

from canaryd.stats.cells import Cells
from canaryd.stats.estimate import Estimate
from canaryd.stats.params import EstimateParams, TokenParams
from canaryd.stats.tokens import TokenCells, token_change

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "token_log_ratio.json"
DATA = json.loads(VECTORS.read_text()) if VECTORS.exists() else {"cases": []}
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")
PARAMS = TokenParams(EstimateParams(confidence=0.99, min_df=4, min_changed_items=5), min_change=0.1)
Z = 2.576


def close(value):
    return None if value is None else pytest.approx(value, rel=DATA["tolerance"], abs=DATA["tolerance"])


def _cells(rows, day):
    counts = Cells.from_samples((item, day, float(count)) for item, count in rows)
    return TokenCells(counts, Cells.from_samples((item, day, math.log(count)) for item, count in rows))


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["id"])
def test_token_change(case):
    expected = case["expected"]
    baseline, window = _cells(case["baseline"], date(2027, 1, 1)), _cells(case["window"], date(2027, 2, 1))
    tokens = token_change(baseline, window, clusters=case["clusters"], params=PARAMS)
    ratio = tokens.log_ratio
    assert ratio.items_paired == expected["items_paired"]
    assert list(ratio.dropped) == expected["dropped"]
    assert ratio.delta == close(expected["mean_log_ratio"])
    assert (None if tokens.change is None else 100 * tokens.change) == close(expected["change_pct"])
    if expected["df"] is None:
        assert not isinstance(ratio, Estimate)
        assert tokens.ci_item is None
        return
    assert ratio.se_cr1 == close(expected["se_cr1"])
    assert ratio.se_cr2 == close(expected["se_cr2"])
    assert ratio.df == close(expected["df"])
    assert tuple(100 * bound for bound in tokens.ci_item) == close(tuple(expected["ci99_pct"]))
    published = tuple(100 * math.expm1(ratio.delta + sign * Z * ratio.se_cr1) for sign in (-1, 1))
    assert published == close(tuple(expected["prereg_ci99_pct"]))
