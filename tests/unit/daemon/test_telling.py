"""The webhook's child: sent while a message is owed, after a wait that grows with each failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from canaryd.daemon.telling import FIRST_WAIT_S, LONGEST_WAIT_S, Telling
from canaryd.daemon.worker import Order
from canaryd.records import Alarm
from canaryd.resources import resource
from canaryd.store.deliveries import keep_delivery
from canaryd.store.engine import Store, open_store
from canaryd.store.lease import acquire_lease
from canaryd.store.write import append_alarm, register_series
from canaryd.webhook.notices import owed

ORDER = Order("tell", "s", "2030-01-01", "config.toml", "", "info")


class FakeWorker:
    def __init__(self, order: Order) -> None:
        self.order, self.silent_s, self.code = order, 0.0, None

    def begin(self) -> None:
        """Take the order."""

    def ended(self) -> int | None:
        return self.code


@pytest.fixture
def store(tmp_path: Path, study: Any) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'canaryd.db'}", create=True) as opened:
        register_series(opened, replace(study.plan(), registration=resource("prereg.example.toml").read_bytes()))
        lease = acquire_lease(opened, "s", holder=study.holder(), now=study.now, policy=study.policy)
        append_alarm(opened, Alarm("s", "regression", study.now, None), lease=lease)
        yield opened


def test_the_wait_doubles_up_to_an_hour_and_starts_anew_after_a_success(store: Store, study: Any) -> None:
    now_s, workers = 0.0, []

    def start(order: Order) -> Any:
        workers.append(FakeWorker(order))
        return workers[-1]

    telling = Telling("s", start, monotonic_s=lambda: now_s)
    wait_s = FIRST_WAIT_S
    for tried in range(1, 14):
        telling.tick(store, ORDER, now=study.now)
        telling.tick(store, ORDER, now=study.now)
        assert len(workers) == tried, "one child at a time"
        workers[-1].code = 1
        telling.tick(store, ORDER, now=study.now)
        now_s += wait_s - 0.1
        telling.tick(store, ORDER, now=study.now)
        assert len(workers) == tried, "not before its time"
        now_s += 0.1
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)
    assert wait_s == LONGEST_WAIT_S
    telling.tick(store, ORDER, now=study.now)
    with store.read() as connection:
        (notice,) = owed(connection, "s", now=study.now)
    keep_delivery(store, "s", notice=notice.id, outcome="accepted", now=study.now)
    workers[-1].code = 0
    now_s += LONGEST_WAIT_S
    sent = len(workers)
    telling.tick(store, ORDER, now=study.now)
    assert len(workers) == sent, "nothing is owed any more"


def test_what_was_not_taken_is_told_with_its_attempts_and_the_next(store: Store, study: Any) -> None:
    workers = []

    def start(order: Order) -> Any:
        workers.append(FakeWorker(order))
        return workers[-1]

    telling = Telling("s", start, monotonic_s=lambda: 0.0)
    assert telling.facts() == {"failed": {}, "next_attempt": None}
    telling.tick(store, ORDER, now=study.now)
    telling.note(None, "there is no file webhook-url.txt")
    telling.note("alarm/1", "status 503")
    workers[-1].code = 1
    telling.tick(store, ORDER, now=study.now)
    facts: Any = telling.facts()
    assert facts["failed"] == {"alarm/1": {"attempts": 2, "last_error": "status 503"}}
    assert datetime.now(UTC) < datetime.fromisoformat(facts["next_attempt"]) + timedelta(seconds=1)
    telling.note("alarm/1", None)
    assert telling.facts()["failed"] == {}
