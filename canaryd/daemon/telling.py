"""The webhook's messages of one series: a child posts what is owed, and is sent again after a growing wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from canaryd.daemon.errand import Errand
from canaryd.daemon.worker import Order, Worker
from canaryd.records import JsonValue
from canaryd.store.engine import Store
from canaryd.webhook.notices import owed

FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 3600.0
#: A child that is silent for longer than this hangs; each post ends after 10 s.
LONGEST_S = 300.0


class Telling:
    """Sends a child while messages are owed: doubling the wait after each that failed, up to an hour.

    What is owed stands in the store, so a restart forgets the wait and the attempts alone.
    """

    def __init__(
        self, series: str, start_worker: Callable[[Order], Worker], *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._series = series
        self._errand = Errand(start_worker, longest_s=LONGEST_S)
        self._monotonic_s = monotonic_s
        self._not_before_s = float("-inf")
        self._wait_s = FIRST_WAIT_S
        self._first: str | None = None
        self._failed: dict[str, tuple[int, str]] = {}

    def tick(self, store: Store, order: Order, *, now: datetime) -> None:
        """Look after the child under way, or send one where a message is owed and its time has come."""
        code = self._errand.ended()
        if code == 0:
            self._wait_s = FIRST_WAIT_S
        elif code is not None:
            self._not_before_s = self._monotonic_s() + self._wait_s
            self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
        if self._errand.is_under_way or self._monotonic_s() < self._not_before_s:
            return
        with store.read() as connection:
            notices = owed(connection, self._series, now=now)
        if notices:
            self._first = notices[0].id
            self._errand.begin(order)

    def note(self, notice: str | None, failed: str | None) -> None:
        """Note how the child's attempt at a notice went; None is the first that was owed, nothing could be sent."""
        name = notice or self._first
        if name is None:
            return
        count, _ = self._failed.pop(name, (0, ""))
        if failed is not None:
            self._failed[name] = count + 1, failed

    def facts(self) -> dict[str, JsonValue]:
        """Return the notices that were not taken, with how often they were tried and why not, and when it goes on."""
        wait_s = self._not_before_s - self._monotonic_s()
        again_at = datetime.now(UTC) + timedelta(seconds=wait_s) if wait_s > 0 else None
        return {
            "failed": {
                name: {"attempts": count, "last_error": why} for name, (count, why) in self._failed.copy().items()
            },
            "next_attempt": again_at.isoformat(timespec="seconds") if again_at else None,
        }

    def stop(self) -> None:
        """Kill a child that is under way; what it had not stored is owed still."""
        self._errand.stop()
