"""What a child says of the runs that it measured."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import get_args

import pytest
from structlog.testing import capture_logs

from canaryd.config import parse
from canaryd.daemon.child import obey
from canaryd.daemon.worker import Order
from canaryd.daily import DayResult
from canaryd.records import Run, RunEnd, RunOutcome, RunStart

CONFIG = """
[[series]]
name = "s"
panel = "p.jsonl"
[[series.arm]]
name = "old"
role = "tracked"
provider = "simulated"
model = "m-1"
"""
AT = datetime(2030, 1, 1, 3, 10, tzinfo=UTC)


@pytest.mark.parametrize("outcome", get_args(RunOutcome))
def test_a_run_that_is_not_complete_is_a_warning(monkeypatch: pytest.MonkeyPatch, outcome: RunOutcome) -> None:
    start = RunStart("s", "old", AT.date(), 1, AT, AT, "p", "r", "f")
    day = DayResult((Run(1, start, RunEnd(AT, outcome, "because")),), (), {}, succeeded=False)
    monkeypatch.setattr("canaryd.daily.measure_slot", lambda *_, **__: day)
    config = parse(CONFIG, path=Path("config.toml"))
    order = Order("measure", "s", date(2030, 1, 1).isoformat(), "config.toml", CONFIG, "info")
    with capture_logs() as said:
        assert obey(order, config=config, series=config.series[0]) == 0
    (line,) = [each for each in said if each["event"] == "run ended"]
    level = "info" if outcome == "completed" else "warning"
    assert (line["log_level"], line["outcome"], line["reason"]) == (level, outcome, "because")
