"""McNemar's test against exact binomial fractions."""

import json
import os
from fractions import Fraction
from pathlib import Path

import pytest

from canaryd.stats.mcnemar import mcnemar

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "mcnemar.json"
DATA = json.loads(VECTORS.read_text()) if VECTORS.exists() else {"cases": []}
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")


def close(value):
    return None if value is None else pytest.approx(value, rel=DATA["tolerance"], abs=DATA["tolerance"])


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["id"])
def test_mcnemar(case):
    expected = case["expected"]
    test = mcnemar(case["b"], case["c"], min_discordant=10)
    assert test.discordant == expected["discordant"]
    assert test.reason == expected["reason"]
    for name in ("chi2_cc", "p_chi2_cc", "p_exact", "p_mid", "p_reported"):
        assert getattr(test, name) == close(expected[name]), name
    assert test.p_exact == close(float(Fraction(expected["p_exact_fraction"])))
    assert test.smallest_attainable_p == close(float(Fraction(expected["smallest_attainable_p"])))
