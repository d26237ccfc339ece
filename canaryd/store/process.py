"""Which process holds a lease, and whether it still lives: the only place where the store looks at the machine."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
#: The start of a process that exists, and that /proc hides from this one.
_UNSEEN = 0


@dataclass(frozen=True, slots=True)
class Holder:
    """One process on one machine.

    `machine` identifies the running operating system and its process numbering (`BOOT:NAMESPACE`), since host names
    repeat; `process_start` is the process' start in clock ticks after boot, since process ids repeat too.
    """

    host: str
    machine: str
    pid: int
    process_start: int

    def is_same_process(self, other: Holder) -> bool:
        """Whether both are one process; a start that was not seen may be any."""
        is_numbered_alike = (self.host, self.pid) == (other.host, other.pid) and self.is_beside(other)
        return is_numbered_alike and _starts_agree(self.process_start, other.process_start)

    def is_beside(self, other: Holder) -> bool:
        """Whether both are on one machine; a boot that was not seen may be any of a machine of the same name."""
        (boot, _, numbering), (its_boot, _, its_numbering) = (each.machine.partition(":") for each in (self, other))
        is_one_boot = boot == its_boot if boot and its_boot else self.host == other.host
        return numbering == its_numbering and is_one_boot


def this_process() -> Holder:
    """Return the calling process as a holder."""
    return holder_of(os.getpid())


def holder_of(pid: int) -> Holder:
    """Return a process of this machine as a holder."""
    return Holder(host=socket.gethostname(), machine=_machine(), pid=pid, process_start=_process_start(pid) or _UNSEEN)


def is_alive(holder: Holder) -> bool:
    """Whether the holder may still run: False only for a process of this very machine that has ended."""
    me = this_process()
    if not (holder.machine and me.machine and holder.is_beside(me)):
        return True
    start = _process_start(holder.pid)
    return start is not None and _starts_agree(start, holder.process_start)


def _starts_agree(one: int, other: int) -> bool:
    return one == other or _UNSEEN in (one, other)


def _machine() -> str:
    """Return boot id and pid namespace; "" where there is no procfs, so that nothing is taken for dead.

    systemd-nspawn lays a file of its own over the boot id. A service with a /proc of its own (`ProtectProc=`) sees
    through to that of the machine, and nobody else in the container does: a boot id that is none of /proc is left out.
    """
    boot = _PROC / "sys/kernel/random/boot_id"
    try:
        is_seen = boot.stat().st_dev == _PROC.stat().st_dev
        return f"{boot.read_text().strip() if is_seen else ''}:{(_PROC / 'self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _process_start(pid: int) -> int | None:
    """Return field 22 of /proc/PID/stat; None for a process that does not exist or has become a zombie.

    One that keeps its memory closed is not in /proc for others where that is mounted so (`ProtectProc=invisible`).
    """
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return _UNSEEN if _exists(pid) else None
    # The command name stands in brackets and may hold anything, brackets and spaces included.
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in {"Z", "X"} else int(rest[18])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
