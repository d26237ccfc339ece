"""A child that does something beside the runs: it holds no lease, and nothing is lost when it dies at any moment."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from canaryd.daemon.worker import Order, Worker


class Errand:
    """One kind of such work; at most one child at a time does it. One that takes longer than `longest_s` is killed."""

    def __init__(self, start_worker: Callable[[Order], Worker], *, longest_s: float) -> None:
        self._start_worker = start_worker
        self._longest_s = longest_s
        self._worker: Worker | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a child is at it."""
        return self._worker is not None

    def begin(self, order: Order) -> None:
        """Send a child out."""
        self._worker = self._start_worker(order)
        self._worker.begin()

    def ended(self) -> int | None:
        """Return the exit code of a child that has ended since the last look, None where there is none."""
        if self._worker is None:
            return None
        code = self._worker.ended()
        if code is None and self._worker.silent_s > self._longest_s:
            code = self._worker.end(timeout_s=0)
        if code is None:
            return None
        if code != 0:
            order = self._worker.order
            log = structlog.get_logger("canaryd.daemon")
            log.warning("child failed", work=order.work, series=order.series, code=code)
        self._worker = None
        return code

    def stop(self) -> None:
        """Kill a child that is under way."""
        if self._worker is not None:
            self._worker.end(timeout_s=0)
            self._worker = None
