"""The webhook's child: sent while a message is owed, after a wait that grows with each failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from canaryd.daemon.telling import FIRST_WAIT_S, LONGEST_WAIT_S, Telling
from canaryd.daemon.worker import Order
from canaryd.records import Alarm
from canaryd.store.deliveries import keep_delivery, undelivered
from canaryd.store.engine import Store, open_store
from canaryd.store.write import append_alarm

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
        lease = study.register(opened)
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
        telling.tick(store, ORDER)
        telling.tick(store, ORDER)
        assert len(workers) == tried, "one child at a time"
        workers[-1].code = 1
        telling.tick(store, ORDER)
        now_s += wait_s - 0.1
        telling.tick(store, ORDER)
        assert len(workers) == tried, "not before its time"
        now_s += 0.1
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)
    assert wait_s == LONGEST_WAIT_S
    telling.tick(store, ORDER)
    with store.read() as connection:
        (owed,) = undelivered(connection, "s")
    keep_delivery(store, owed, outcome="accepted", now=study.now)
    workers[-1].code = 0
    now_s += LONGEST_WAIT_S
    sent = len(workers)
    telling.tick(store, ORDER)
    assert len(workers) == sent, "nothing is owed any more"
