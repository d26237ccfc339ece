"""Critical values of Student's t, also for the fractional degrees of freedom that CR2 gives."""

import json
import os
from pathlib import Path

import pytest

from canaryd.stats.estimate import t_critical

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "t_quantiles.json"
DATA = json.loads(VECTORS.read_text()) if VECTORS.exists() else {"rows": []}
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")


@pytest.mark.parametrize("row", DATA["rows"], ids=lambda row: f"df-{row['df']}")
def test_t_critical(row):
    tolerance = DATA["tolerance"]
    assert t_critical(0.95, row["df"]) == pytest.approx(row["q975"], rel=tolerance, abs=tolerance)
    assert t_critical(0.99, row["df"]) == pytest.approx(row["q995"], rel=tolerance, abs=tolerance)
