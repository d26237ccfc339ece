"""Clustered means against statsmodels, fractions and the dense-matrix definition of CR2."""

import json
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from canaryd.stats.cluster import clustered_mean
from canaryd.stats.estimate import t_critical

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "clustered_se.json"
DATA = json.loads(VECTORS.read_text()) if VECTORS.exists() else {"cases": []}
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")


def close(value):
    return None if value is None else pytest.approx(value, rel=DATA["tolerance"], abs=DATA["tolerance"])


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["id"])
def test_clustered_mean(case):
    expected = case["expected"]
    mean = clustered_mean(np.array(case["values"], dtype=float), case["clusters"])
    assert (mean.n, mean.clusters) == (expected["n_items"], expected["n_clusters"])
    assert mean.mean == close(float(Fraction(expected["mean_exact"])))
    assert mean.se_cr1 == close(expected["se_cr1"])
    assert mean.se_cr2 == close(expected["se_cr2"])
    assert mean.df == close(expected["df_bm"])
    if mean.df is not None:
        assert mean.se_cr1**2 == close(float(Fraction(expected["var_cr1_exact"])))
        assert t_critical(0.99, mean.df) == close(expected["t_crit_99"])
        assert t_critical(0.95, mean.df) == close(expected["t_crit_95"])
