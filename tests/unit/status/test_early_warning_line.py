"""The line of an early-warning stream: an alarm stands with its own onset, not with that of the segment after it."""

from dataclasses import fields
from datetime import date
from typing import Any

from canaryd.status import text
from canaryd.status.model import StreamStatus


def stream(**values: Any) -> StreamStatus:
    plain = {"stream": "score", "state": "ok", "capital": 0.7, "threshold": 1800.0}
    known = {field.name: None for field in fields(StreamStatus)} | plain
    return StreamStatus(**{**known, **values})


def test_an_alarm_is_printed_with_the_day_that_it_points_to() -> None:
    past = stream(onset=date(2027, 2, 27), alarmed_on=date(2027, 2, 6), alarm_onset=date(2027, 1, 31))
    assert text._stream(past).endswith("alarmed on 2027-02-06, most likely first changed day 2027-01-31")


def test_without_an_alarm_no_day_is_named() -> None:
    assert text._stream(stream(onset=date(2027, 2, 27))).endswith("capital 0.7 of 1800")
