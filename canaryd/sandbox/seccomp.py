"""A seccomp filter for the sandbox, as the BPF program that `bwrap --seccomp` reads.

It refuses (EPERM) what no candidate needs and exploits like: tracing and reading other processes, keys, BPF, io_uring,
mounting, new namespaces, and unix sockets. Numbers are those of Linux' system call tables.
"""

from __future__ import annotations

import struct

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _EPERM, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_FIRST_ARGUMENT = 0, 4, 16
_AF_UNIX = 1
_X32 = 0x40000000

#: The same on every architecture: io_uring_setup/enter/register, open_tree, move_mount, fsopen, fsconfig, fsmount,
#: fspick, mount_setattr.
_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442)

#: machine: (AUDIT_ARCH, socket, ptrace process_vm_readv process_vm_writev kcmp add_key request_key keyctl bpf
#: perf_event_open userfaultfd mount umount2 pivot_root unshare setns)
_MACHINES: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "x86_64": (0xC000003E, 41, (101, 310, 311, 312, 248, 249, 250, 321, 298, 323, 165, 166, 155, 272, 308)),
    "aarch64": (0xC00000B7, 198, (117, 270, 271, 272, 217, 218, 219, 280, 241, 282, 40, 39, 41, 97, 268)),
}


def program(machine: str) -> bytes | None:
    """Return the filter for a machine as `platform.machine()` names it, or None where the numbers are not known.

    >>> len(program("x86_64")) % 8, program("sparc") is None
    (0, True)
    """
    if machine not in _MACHINES:
        return None
    arch, socket, numbers = _MACHINES[machine]
    refused = numbers + _EVERYWHERE
    steps = [
        (_LOAD, 0, 0, _OFFSET_ARCH),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
    ]
    # Jumps count the steps that are skipped; the program ends with: allow, refuse.
    last = len(steps) + 1 + len(refused) + 3
    steps.append((_AT_LEAST, last - len(steps), 0, _X32))
    for number in refused:
        steps.append((_EQUAL, last - len(steps), 0, number))
    steps += [(_EQUAL, 0, 2, socket), (_LOAD, 0, 0, _OFFSET_FIRST_ARGUMENT), (_EQUAL, 1, 0, _AF_UNIX)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _EPERM)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
