"""The minimum detectable effect against fractions, with the published design among them."""

import json
import os
from fractions import Fraction
from pathlib import Path

import pytest

from canaryd.stats.params import MdeParams
from canaryd.stats.power import Plan, information_of_counts, information_of_rates, plan_mde, predicted_mde

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "mde.json"
DATA = (
    json.loads(VECTORS.read_text())
    if VECTORS.exists()
    else {"cases": [], "information": [], "equal_information_table": {"rows": []}}
)
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")
PARAMS = MdeParams(z_confidence=2.576, z_power=0.842, two_window_factor=1.24)


def close(value):
    return None if value is None else pytest.approx(value, rel=DATA["tolerance"], abs=DATA["tolerance"])


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["id"])
def test_predicted(case):
    expected = case["expected"]
    mde = predicted_mde(
        information_of_rates([float(Fraction(rate)) for rate in case["p"]]),
        samples_baseline=case["m_baseline"],
        samples_window=case["m_window"],
        params=PARAMS,
    )
    assert mde.se**2 == close(float(Fraction(expected["var_exact"])))
    assert 100 * mde.se == close(expected["se_points"])
    assert 100 * mde.one_window == close(expected["mde_points"])


@pytest.mark.parametrize("row", DATA["information"], ids=lambda row: f"{row['passes']}-of-{row['n']}")
def test_unbiased_information(row):
    assert information_of_counts(row["passes"], row["n"]) == close(float(Fraction(row["unbiased"])))
    assert information_of_rates([row["passes"] / row["n"]]) == [close(float(Fraction(row["plug_in"])))]


def test_published_panel_with_unbiased_information():
    passes = [count for family in DATA["livenerf_confirm_passes_of_8"].values() for count in family]
    information = [information_of_counts(count, 8) for count in passes]
    assert sum(information) / len(information) == close(float(Fraction(DATA["livenerf_information"]["unbiased"])))
    mde = predicted_mde(information, samples_baseline=10, samples_window=10, params=PARAMS)
    assert 100 * mde.se == close(DATA["livenerf_information"]["se_points"])
    assert 100 * mde.one_window == close(DATA["livenerf_information"]["mde_points"])


@pytest.mark.parametrize(
    "row", DATA["equal_information_table"]["rows"], ids=lambda row: f"{row['items']}x{row['per_day']}"
)
def test_budget(row):
    rates = [float(Fraction(rate)) for rate in DATA["cases"][0]["p"]]
    mean_information = sum(information_of_rates(rates)) / len(rates)
    mde = plan_mde(Plan(row["items"], row["per_day"], 10, 10), mean_information=mean_information, params=PARAMS)
    assert 100 * mde.one_window == close(row["mde_points"])
