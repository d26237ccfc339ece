"""The calendar grid against exact instants."""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from canaryd.windows import Grid, utc_date

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "window_grid.json"
DATA = json.loads(VECTORS.read_text()) if VECTORS.exists() else {"cases": []}
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")


def _moment(text):
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["id"])
def test_grid(case):
    expected = case["expected"]
    origin = utc_date(_moment(case["series_start"]))
    grid = Grid(origin, case.get("baseline_days", case["window_days"]), case["window_days"])
    assert origin == _moment(expected["origin"]).date()
    assert grid.end_of(0) == _moment(expected["baseline_end"])
    assert grid.window(1).first == _moment(expected["baseline_end"]).date()
    for assignment in expected["assignments"]:
        day = utc_date(_moment(assignment["ts"]))
        assert grid.index_of(day) == assignment["window"]
        assert grid.series_day(day) == assignment["series_day"]


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["id"])
def test_a_window_is_complete_at_its_last_midnight_and_not_a_second_before(case):
    days = case.get("baseline_days", case["window_days"])
    grid = Grid(utc_date(_moment(case["series_start"])), days, case["window_days"])
    for index in range(4):
        end = _moment(case["expected"]["origin"]) + timedelta(days=days + index * case["window_days"])
        assert grid.has_ended(index, end)
        assert not grid.has_ended(index, end - timedelta(seconds=1))
        assert (grid.last_ended(end - timedelta(seconds=1)), grid.last_ended(end)) == (index - 1, index)
