"""Ctrl-C and SIGTERM of a command that measures: what is in flight lands first, and a second one ends it at once."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from canaryd.errors import EXIT_INTERRUPTED
from canaryd.runner.calls import Drain, drain

_SAID = b"canaryd: told to end: no further question is asked, those in flight land; once more ends it at once\n"


def end_gently() -> None:
    """Let the first SIGINT or SIGTERM stop the asking, so that what is in flight is stored, and the second end it all.

    What the second one cuts off is as lost as after a crash: the store holds whole samples only.
    """
    told = Drain()
    drain.set(told)

    def arrived(_number: int, _frame: FrameType | None) -> None:
        if told.is_told:
            os._exit(EXIT_INTERRUPTED)
        told.tell()
        # A handler may run amid a write of the buffered stream, which would refuse another one.
        os.write(sys.stderr.fileno(), _SAID)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, arrived)
