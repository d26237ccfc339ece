"""What is kept beside the alarm states, on both databases: acknowledgements, and the webhook's deliveries."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from canaryd.errors import UsageError
from canaryd.records import Alarm, AlarmState
from canaryd.runner.silencing import silence
from canaryd.store.acknowledgements import Acknowledgement, acknowledgements
from canaryd.store.deliveries import keep_delivery, outcomes, undelivered
from canaryd.store.engine import RowRefused, Store, open_store
from canaryd.store.transfer import export_jsonl, import_jsonl
from canaryd.store.write import append_alarm

HOUR = timedelta(hours=1)


def enter(store: Store, study: Any, lease: Any, *states: AlarmState) -> None:
    for state in states:
        append_alarm(store, Alarm("s", state, study.now, None), lease=lease)


def owed(store: Store, series: str = "s") -> list[tuple[str, str]]:
    with store.read() as connection:
        return [(each.before, each.alarm.state) for each in undelivered(connection, series)]


def known(store: Store, series: str = "s") -> dict[AlarmState, Acknowledgement]:
    with store.read() as connection:
        return acknowledgements(connection, series)


def test_a_transition_is_owed_until_its_row_is_there_and_has_but_one(store: Store, study: Any) -> None:
    other = study.register(store, "other")
    append_alarm(store, Alarm("other", "ok", study.now, None), lease=other)
    enter(store, study, study.register(store), "ok", "regression", "ok")
    assert owed(store) == [("warming_up", "ok"), ("ok", "regression"), ("regression", "ok")]
    with store.read() as connection:
        _, regression, _ = undelivered(connection, "s")
    keep_delivery(store, regression, outcome="accepted", now=study.now)
    assert owed(store) == [("warming_up", "ok"), ("regression", "ok")]
    with store.read() as connection:
        assert outcomes(connection, "s") == (None, "accepted", None)
        assert outcomes(connection, "other") == (None,)
    with pytest.raises(RowRefused):
        keep_delivery(store, regression, outcome="silenced", now=study.now)


def test_the_newest_acknowledgement_of_a_state_counts(store: Store, study: Any) -> None:
    enter(store, study, study.register(store), "ok", "regression")
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
    lease = study.register(store)
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
    other = study.register(store, "other")
    append_alarm(store, Alarm("other", "ok", study.now, None), lease=other)
    enter(store, study, study.register(store), "ok", "regression")
    silence(store, "s", until=study.now + HOUR, reason="known", now=study.now)
    with store.read() as connection:
        first, _ = undelivered(connection, "s")
    keep_delivery(store, first, outcome="outdated", now=study.now)
    with store.read() as connection:
        lines = list(export_jsonl(connection, "s", with_texts=True))
    with open_store(f"sqlite:///{tmp_path / 'other.db'}", create=True) as copy:
        assert import_jsonl(copy, lines, now=study.now) == "s"
        assert owed(copy) == owed(store) == [("ok", "regression")]
        assert known(copy) == known(store) != {}
