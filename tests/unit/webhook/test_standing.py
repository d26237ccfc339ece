"""Where a message stands, from the store's rows and what the daemon tells."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from canaryd.webhook.standing import Standing, standing

LIVE = {"failed": {"alarm/7": {"attempts": 3, "last_error": "status 503"}}, "next_attempt": "2027-03-27T03:32:10+00:00"}


@pytest.mark.parametrize(
    ("notice", "is_owed", "said"),
    [
        ("alarm/7", True, "waiting; 3 failed attempts, the last: status 503; next at 2027-03-27 03:32:10Z"),
        ("alarm/7", False, "given up; 3 failed attempts, the last: status 503"),
        ("alarm/8", True, "waiting; next at 2027-03-27 03:32:10Z"),
        ("alarm/8", False, "given up"),
    ],
)
def test_what_is_waiting_and_what_was_given_up_are_told_apart(notice: str, is_owed: bool, said: str) -> None:
    assert standing(notice, told=None, is_owed=is_owed, live=LIVE).said() == said
    without = standing(notice, told=None, is_owed=is_owed, live={})
    assert without == Standing("waiting" if is_owed else "given_up"), "no daemon, no attempts"


def test_a_stored_outcome_is_the_whole_of_it() -> None:
    assert standing("alarm/7", told="silenced", is_owed=True, live=LIVE) == Standing("silenced")
    again = Standing("waiting", 1, "status 503", datetime(2027, 3, 27, 3, 32, tzinfo=UTC))
    assert again.said() == "waiting; 1 failed attempt, the last: status 503; next at 2027-03-27 03:32:00Z"
    assert again.to_json() == {
        "state": "waiting",
        "attempts": 1,
        "last_error": "status 503",
        "next_attempt": "2027-03-27T03:32:00+00:00",
    }
