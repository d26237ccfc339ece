"""Which disturbance of the clocks is which, and when the calendar is not believed."""

from datetime import UTC, datetime, timedelta

import pytest

from canaryd.daemon.clocks import ClockWatch, Disturbance, Reading, disturbances, why_untrusted

NOW = datetime(2027, 3, 1, 3, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (Reading(30, 30, 30), ()),
        (Reading(34, 30, 30), ()),
        (Reading(3630, 30, 30), ("clock_step",)),
        (Reading(-3570, 30, 30), ("clock_step",)),
        (Reading(6 * 3600, 6 * 3600, 30), ("suspend",)),
        (Reading(0, 3600, 30), ("clock_step", "suspend")),
    ],
)
def test_steps_and_suspends(after: Reading, expected: tuple[Disturbance, ...]) -> None:
    assert disturbances(Reading(0, 0, 0), after) == expected


def test_a_watch_compares_with_its_last_look() -> None:
    readings = iter([Reading(0, 0, 0), Reading(3630, 30, 30), Reading(3660, 60, 60)])
    watch = ClockWatch(lambda: next(readings))
    assert watch.look() == ("clock_step",)
    assert watch.look() == ()


def test_a_clock_behind_the_store_is_not_believed() -> None:
    assert why_untrusted(NOW, None) is None
    assert why_untrusted(NOW, NOW + timedelta(minutes=59)) is None
    behind = why_untrusted(NOW, NOW + timedelta(minutes=61))
    assert behind is not None
    assert "2027-03-01 04:11Z" in behind


def test_a_clock_without_battery_is_not_believed() -> None:
    assert "before canaryd existed" in str(why_untrusted(datetime(1970, 1, 1, tzinfo=UTC), None))
