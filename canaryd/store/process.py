"""Which process holds a lease, and whether it still lives: the only place where the store looks at the machine."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Holder:
    """One process on one machine.

    `machine` identifies the running operating system and its process numbering (boot id and pid namespace), since
    host names repeat; `process_start` is the process' start in clock ticks after boot, since process ids repeat too.
    """

    host: str
    machine: str
    pid: int
    process_start: int


def this_process() -> Holder:
    """Return the calling process as a holder."""
    return holder_of(os.getpid())


def holder_of(pid: int) -> Holder:
    """Return a process of this machine as a holder."""
    return Holder(host=socket.gethostname(), machine=_machine(), pid=pid, process_start=_process_start(pid) or 0)


def is_alive(holder: Holder) -> bool:
    """Whether the holder may still run: False only for a process of this very machine that has ended."""
    if not holder.machine or holder.machine != _machine():
        return True
    return _process_start(holder.pid) == holder.process_start


def _machine() -> str:
    """Return boot id and pid namespace; "" where there is no procfs, so that nothing is taken for dead."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{(_PROC / 'self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _process_start(pid: int) -> int | None:
    """Return field 22 of /proc/PID/stat; None for a process that does not exist or has become a zombie."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command name stands in brackets and may hold anything, brackets and spaces included.
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in {"Z", "X"} else int(rest[18])
