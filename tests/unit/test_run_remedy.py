"""What `canaryd run` says to do next."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from canaryd.cli.measure import remedy
from canaryd.records import RunEnd, RunOutcome

AT = datetime(2027, 3, 1, tzinfo=UTC)
INCOMPLETE, CANARY = ("incomplete", "rate_limited"), ("refused", "canary_failed: x")
DRIFT = ("refused", "harness_drift: x")


@pytest.mark.parametrize("ends", [[INCOMPLETE], [CANARY, INCOMPLETE], [CANARY, DRIFT, CANARY], [DRIFT, INCOMPLETE]])
def test_each_step_is_said_once_and_to_run_again_last(ends: list[tuple[RunOutcome, str]]) -> None:
    said = remedy([RunEnd(AT, outcome, reason) for outcome, reason in ends])
    assert said.endswith("run the same command again today to ask what is missing")
    assert said.count("again today") == 1
    assert said.count("canaryd doctor") == (CANARY in ends)
    assert said.count("canaryd deviation accept --reason TEXT") == (DRIFT in ends)
