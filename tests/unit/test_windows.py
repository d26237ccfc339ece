"""The calendar grid: every date has one place, and nothing is complete early."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from canaryd.windows import Grid, utc_date

#: The same examples everywhere, however busy the machine.
UNHURRIED = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
GRIDS = st.builds(
    Grid,
    st.dates(date(2020, 1, 1), date(2040, 1, 1)),
    baseline_days=st.integers(1, 60),
    window_days=st.integers(1, 40),
)


@UNHURRIED
@given(GRIDS, st.integers(0, 50))
def test_windows_follow_each_other_without_gap_or_overlap(grid, index):
    here, after = grid.window(index), grid.window(index + 1)
    assert after.first == here.last + timedelta(days=1)
    assert len(grid.days_of(index)) == (grid.window_days if index else grid.baseline_days)
    assert grid.days_of(index)[0] == here.first
    assert grid.days_of(index)[-1] == here.last
    assert {grid.index_of(day) for day in grid.days_of(index)} == {index}


@UNHURRIED
@given(GRIDS, st.integers(0, 400))
def test_the_last_ended_window_is_the_one_before_today_s(grid, days):
    now = datetime.combine(grid.start + timedelta(days=days), datetime.min.time(), tzinfo=UTC) + timedelta(hours=23)
    last = grid.last_ended(now)
    assert not grid.has_ended(last + 1, now)
    if last >= 0:
        assert grid.has_ended(last, now)
        assert grid.end_of(last) <= now
    assert last == grid.index_of(utc_date(now)) - 1


def test_the_baseline_is_window_zero_and_the_series_begins_on_day_one():
    grid = Grid(date(2026, 9, 24), baseline_days=10, window_days=10)
    assert (grid.baseline.index, grid.baseline.first, grid.baseline.last) == (0, date(2026, 9, 24), date(2026, 10, 3))
    assert grid.days_of(1)[0] == date(2026, 10, 4)
    assert grid.window(2).last == date(2026, 10, 23)
    assert (grid.series_day(date(2026, 9, 24)), grid.series_day(date(2026, 9, 23))) == (1, 0)


def test_before_the_series_there_is_no_window():
    grid = Grid(date(2026, 9, 24), 10, 10)
    assert grid.index_of(date(2026, 9, 23)) == grid.index_of(date(2025, 1, 1)) == -1
    assert grid.last_ended(datetime(2026, 9, 1, tzinfo=UTC)) == -1
    with pytest.raises(ValueError, match="there is no window -1"):
        grid.window(-1)


def test_a_slot_date_is_the_utc_date_of_an_aware_time():
    east = timezone(timedelta(hours=9))
    assert utc_date(datetime(2027, 1, 2, 3, 0, tzinfo=east)) == date(2027, 1, 1)
    with pytest.raises(ValueError, match="no zone"):
        utc_date(datetime(2027, 1, 2, 3, 0))  # noqa: DTZ001 - the naive time that must be refused


def test_a_grid_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        Grid(date(2027, 1, 1), 0, 10)
    with pytest.raises(TypeError, match="starts on a date"):
        Grid(datetime(2027, 1, 1, tzinfo=UTC), 10, 10)
