"""What a process holds in its memory, keys among it, is closed to other processes of its user and to core dumps."""

from __future__ import annotations

import ctypes
import sys

_PR_SET_DUMPABLE = 4


def close_memory() -> None:
    """Close this process' memory, on Linux.

    With `ProtectProc=invisible` other processes of its user do not even see it in /proc any more (see `store.process`).
    A program that it executes begins open.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
