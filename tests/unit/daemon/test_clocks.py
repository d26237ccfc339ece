"""Which disturbance of the clocks is which."""

import pytest

from canaryd.daemon.clocks import ClockWatch, Disturbance, Reading, disturbances


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
