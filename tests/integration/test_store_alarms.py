"""What is kept beside the alarm states, on both databases: acknowledgements, and the webhook's deliveries."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from canaryd.errors import UsageError
from canaryd.records import Alarm, AlarmState, EarlyWarningDay
from canaryd.resources import resource
from canaryd.runner.silencing import silence
from canaryd.stats.watch_state import SentinelState
from canaryd.store.acknowledgements import Acknowledgement, acknowledgements
from canaryd.store.deliveries import deliveries, keep_delivery
from canaryd.store.engine import RowRefused, Store, open_store
from canaryd.store.lease import acquire_lease
from canaryd.store.rows import Invalid
from canaryd.store.sentinels import SentinelDay, add_days
from canaryd.store.transfer import export_jsonl, import_jsonl
from canaryd.store.write import append_alarm, append_early_warning, append_validity, register_series
from canaryd.webhook.notices import owed

HOUR = timedelta(hours=1)


def enter(store: Store, study: Any, lease: Any, *states: AlarmState) -> None:
    for state in states:
        append_alarm(store, Alarm("s", state, study.now, None), lease=lease)


def untold(store: Store, now: datetime, series: str = "s") -> list[tuple[str, str | None, str]]:
    with store.read() as connection:
        return [(each.id, each.before, each.state) for each in owed(connection, series, now=now)]


def known(store: Store, series: str = "s") -> dict[AlarmState, Acknowledgement]:
    with store.read() as connection:
        return acknowledgements(connection, series)


def register(store: Store, study: Any, series: str = "s") -> Any:
    """Register a series with a registration that can be read."""
    registration = resource("prereg.example.toml").read_bytes()
    register_series(store, replace(study.plan(series), registration=registration))
    return acquire_lease(store, series, holder=study.holder(), now=study.now, policy=study.policy)


def test_a_transition_is_owed_until_its_row_is_there_and_has_but_one(store: Store, study: Any) -> None:
    other = register(store, study, "other")
    append_alarm(store, Alarm("other", "ok", study.now, None), lease=other)
    enter(store, study, register(store, study), "ok", "regression", "ok")
    assert untold(store, study.now) == [
        ("alarm/1", "warming_up", "ok"),
        ("alarm/2", "ok", "regression"),
        ("alarm/3", "regression", "ok"),
    ]
    keep_delivery(store, "s", notice="alarm/2", outcome="accepted", now=study.now)
    assert [each[0] for each in untold(store, study.now)] == ["alarm/1", "alarm/3"]
    assert [each[0] for each in untold(store, study.now, "other")] == ["alarm/1"]
    with store.read() as connection:
        assert deliveries(connection, "s") == {"alarm/2": "accepted"}
    with pytest.raises(RowRefused):
        keep_delivery(store, "s", notice="alarm/2", outcome="silenced", now=study.now)
    assert [each[0] for each in untold(store, study.now + 73 * HOUR)] == ["alarm/3"], (
        "the state that holds, however old"
    )


def test_sentinels_warnings_and_dead_runs_are_told_once_each(store: Store, study: Any) -> None:
    lease = register(store, study)
    (run,) = study.claim(store, lease, study.start(1))
    (beside,) = study.claim(store, lease, study.start(1, arm="ctl"))
    for each in (run, beside):
        append_validity(store, Invalid("zero_pass_all", "", study.now, run_id=each.run_id))
    slots: list[tuple[int, SentinelState]] = [(-1, "ok"), (0, "moved"), (1, "moved"), (2, "ok")]
    for day, state in slots:
        slot_date = study.day_1 + timedelta(days=day)
        judged = SentinelDay("s", slot_date, "d", state, 8, baseline_mean=1.0, today_mean=0.0, low=0.5, high=1.0)
        add_days(store, [judged], lease=lease)
    warned = EarlyWarningDay("s", "score", 1, study.day_1, 3, 45.2, 40.0, True, None)
    quiet = EarlyWarningDay("s", "score", 1, study.day_1 + timedelta(days=1), 4, 1.0, 40.0, False, None)
    append_early_warning(store, [warned, quiet], lease=lease)
    now = study.now + 48 * HOUR
    assert untold(store, now) == [
        ("sentinels/2030-01-01", "ok", "moved"),
        ("early_warning/score/2030-01-01", None, "alarm"),
        ("zero_pass/2030-01-01", None, "zero_pass"),
        ("sentinels/2030-01-02", "moved", "collapsed"),
        ("sentinels/2030-01-03", "collapsed", "ok"),
    ]
    assert untold(store, now + 96 * HOUR) == []


def test_the_newest_acknowledgement_of_a_state_counts(store: Store, study: Any) -> None:
    enter(store, study, register(store, study), "ok", "regression")
    assert known(store) == {}
    silence(store, "s", until=study.now + 48 * HOUR, reason="first", now=study.now)
    later = study.now + HOUR
    shorter = silence(store, "s", until=later + HOUR, reason="second", now=later)
    assert known(store) == {"regression": shorter}
    assert [shorter.is_in_force(later + offset) for offset in (timedelta(0), HOUR - timedelta(seconds=1), HOUR)] == [
        True,
        True,
        False,
    ]


def test_what_alarms_nobody_is_not_silenced(store: Store, study: Any) -> None:
    lease = register(store, study)
    for state in ("warming_up", "ok"):
        if state == "ok":
            enter(store, study, lease, "ok")
        with pytest.raises(UsageError, match=f"is in state {state}, which alarms nobody"):
            silence(store, "s", until=study.now + HOUR, reason="x", now=study.now)
    enter(store, study, lease, "not_evaluable")
    for until in (study.now, study.now - HOUR, study.now + timedelta(days=91)):
        with pytest.raises(UsageError, match="must lie after now"):
            silence(store, "s", until=until, reason="x", now=study.now)
    with pytest.raises(UsageError, match="nosuch"):
        silence(store, "nosuch", until=study.now + HOUR, reason="x", now=study.now)
    assert known(store) == {}


def test_both_go_with_their_series(store: Store, study: Any, tmp_path: Path) -> None:
    other = register(store, study, "other")
    append_alarm(store, Alarm("other", "ok", study.now, None), lease=other)
    enter(store, study, register(store, study), "ok", "regression")
    silence(store, "s", until=study.now + HOUR, reason="known", now=study.now)
    keep_delivery(store, "s", notice="alarm/1", outcome="accepted", now=study.now)
    with store.read() as connection:
        lines = list(export_jsonl(connection, "s", with_texts=True))
    with open_store(f"sqlite:///{tmp_path / 'other.db'}", create=True) as copy:
        assert import_jsonl(copy, lines, now=study.now) == "s"
        assert untold(copy, study.now) == untold(store, study.now) == [("alarm/2", "ok", "regression")]
        assert known(copy) == known(store) != {}
