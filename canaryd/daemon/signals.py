"""The signals of the resident process, heard before anything heavy is imported."""

from __future__ import annotations

import os
import queue
import signal
from types import FrameType

from canaryd.errors import EXIT_INTERRUPTED

_MEANINGS = {signal.SIGTERM: "stop", signal.SIGINT: "stop", signal.SIGHUP: "reload"}


class Signals:
    """SIGTERM and SIGINT ask to stop, SIGHUP to reload; one that arrives before anybody waits is kept.

    A second one that asks to stop ends this process at once with 130, and with it its children, whose order is the end
    of their stdin. What that cuts off is as lost as after a crash: the store holds whole samples only.
    """

    def __init__(self) -> None:
        self._received: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.is_stopping = False
        for each in _MEANINGS:
            signal.signal(each, self._arrived)

    def wait(self) -> str:
        """Return `stop` or `reload` once one of them is asked for."""
        return self._received.get()

    def _arrived(self, number: int, _frame: FrameType | None) -> None:
        meaning = _MEANINGS[signal.Signals(number)]
        if meaning == "stop":
            if self.is_stopping:
                os._exit(EXIT_INTERRUPTED)
            self.is_stopping = True
        self._received.put(meaning)
