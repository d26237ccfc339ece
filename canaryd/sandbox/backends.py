"""How a request reaches the sandbox and what comes back: bubblewrap, or the socket-activated unit of a systemd host."""

from __future__ import annotations

import json
import os
import platform
import pwd
import select
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Protocol

from canaryd.sandbox import seccomp

#: More than the child ever sends; whoever makes it send more ends as `output_limit`.
REPLY_BYTES = 160 * 1024
#: The kernel takes this long at most to end what is left in a sandbox whose first process was killed.
_GONE_S = 10.0
SOCKET = "/run/canaryd-sandbox.sock"
#: It is there where systemd runs.
SYSTEMD = "/run/systemd/system"
_START = "start it: `systemctl enable --now canaryd-sandbox.socket`"


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a sandbox sent, how that ended, and what its own tools complained about."""

    data: bytes
    ended: Literal["closed", "deadline", "flood"]
    diagnostics: str = ""


class Backend(Protocol):
    """One way to run the child confined."""

    def complaints(self) -> list[str]:
        """Return why this backend cannot be trusted on this host; empty means it may be tried."""

    def cure(self) -> str:
        """Return what a person does where this backend does not work."""

    def exchange(self, request: bytes, *, wall_s: float) -> Transcript:
        """Send one request to a fresh sandbox and return what comes back in `wall_s` seconds at most.

        Raises:
            OSError: there is no sandbox to send it to.
        """

    def tools(self) -> dict[str, str]:
        """Return the names and versions of the tools that confine, for the fingerprint."""


def child_source() -> str:
    """Return the source of what runs inside."""
    return files("canaryd.sandbox").joinpath("child.py").read_text(encoding="utf-8")


def receive(descriptor: int, *, deadline_s: float) -> tuple[bytes, Literal["closed", "deadline", "flood"]]:
    """Return what a descriptor gives until it closes, REPLY_BYTES have come, or the monotonic clock has passed."""
    data = b""
    while True:
        left = deadline_s - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return data, "deadline"
        part = os.read(descriptor, REPLY_BYTES)
        data += part
        if not part:
            return data, "closed"
        if len(data) > REPLY_BYTES:
            return data, "flood"


@contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    """Yield the descriptor of a file without a name that holds the content, at its start."""
    descriptor = os.memfd_create("canaryd")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Bwrap:
    """Bubblewrap from the distribution. `tree` is a pinned interpreter's directory, bound read-only besides /usr."""

    executable: str = "/usr/bin/bwrap"
    interpreter: str = "/usr/bin/python3"
    tree: str | None = None

    def complaints(self) -> list[str]:
        """Return why bubblewrap cannot be trusted on this host."""
        try:
            mode = Path(self.executable).stat().st_mode
        except OSError:
            return [f"{self.executable} does not exist"]
        found = [f"{self.executable} is setuid, and must not be"] if mode & stat.S_ISUID else []
        if "Seccomp:" not in Path("/proc/self/status").read_text(encoding="utf-8"):
            found.append("the kernel has no seccomp, and must have it")
        return found

    def cure(self) -> str:
        """Return what to do without it; where systemd runs, the unit's socket is the first thing to look for."""
        bubblewrap = "install the distribution's package bubblewrap and allow user namespaces"
        return f"{_START}; without that unit, {bubblewrap}" if Path(SYSTEMD).is_dir() else bubblewrap

    def exchange(self, request: bytes, *, wall_s: float) -> Transcript:
        """Run one child in a fresh sandbox; nothing of it is left when this returns."""
        deadline_s = time.monotonic() + wall_s
        with self._started(request) as (process, info):
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                first = _first_process(receive(info, deadline_s=deadline_s)[0])
                data, ended = receive(process.stdout.fileno(), deadline_s=deadline_s)
            finally:
                process.kill()
            os.set_blocking(process.stderr.fileno(), False)
            said = process.stderr.read(1000) or b""
            if first is not None:
                select.select([first], [], [], _GONE_S)
                os.close(first)
        return Transcript(data, ended, said.decode(errors="replace").strip())

    @contextmanager
    def _started(self, request: bytes) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
        """Yield a running sandbox that reads the request, and the descriptor on which bubblewrap describes it."""
        filter_program = seccomp.program(platform.machine())
        info, info_writer = os.pipe()
        try:
            with (
                os.fdopen(info_writer, "wb"),
                _memory_file(request) as stdin,
                _memory_file(filter_program or b"") as program,
            ):
                process = subprocess.Popen(  # noqa: S603 - an absolute path and no shell
                    self._command(info_fd=info_writer, filter_fd=program if filter_program else None),
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={},
                    pass_fds=[program, info_writer],
                    start_new_session=True,  # Ctrl-C is for whoever asks; a program under way is graded
                    **_unprivileged(),
                )
            with process:
                yield process, info
        finally:
            os.close(info)

    def _command(self, *, info_fd: int, filter_fd: int | None) -> list[str]:
        """Return the command line: everything unshared, /usr read-only, two small writable directories in memory."""
        bound = ["--ro-bind", self.tree, self.tree] if self.tree else []
        filtered = ["--seccomp", str(filter_fd)] if filter_fd is not None else []
        return [
            self.executable,
            *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"),
            *("--cap-drop", "ALL", "--clearenv", "--setenv", "PATH", "/usr/bin", "--setenv", "HOME", "/work"),
            # Iterating a set must not differ between two runs; hence no `-I`, which ignores PYTHONHASHSEED.
            *("--setenv", "PYTHONHASHSEED", "0", "--setenv", "PYTHONSAFEPATH", "1"),
            *("--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
            *("--symlink", "usr/bin", "/bin", *bound, "--proc", "/proc", "--dev", "/dev"),
            *("--size", "67108864", "--tmpfs", "/tmp", "--size", "67108864", "--tmpfs", "/work"),  # noqa: S108 - in the sandbox
            *("--chdir", "/work", "--hostname", "sandbox", "--remount-ro", "/", "--info-fd", str(info_fd), *filtered),
            *(self.interpreter, "-s", "-S", "-B", "-c", child_source()),
        ]

    def tools(self) -> dict[str, str]:
        """Return bubblewrap's version and whether system calls are filtered."""
        version = subprocess.run(  # noqa: S603 - an absolute path and no shell
            [self.executable, "--version"], env={}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        )
        filtered = "seccomp" if seccomp.program(platform.machine()) else "no seccomp filter for this machine"
        return {"sandbox": f"{version.stdout.strip()}, {filtered}", "interpreter_path": self.interpreter}


def _first_process(info: bytes) -> int | None:
    """Return a descriptor of a sandbox's first process: it ends after every other one in there has ended."""
    try:
        return os.pidfd_open(json.loads(info)["child-pid"])
    except (ValueError, LookupError, ProcessLookupError):
        return None


def _unprivileged() -> dict[str, Any]:
    """Return how to start a process as nobody where this process is root, which must never run a candidate."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@dataclass(frozen=True, slots=True)
class SystemdSocket:
    """The unit `canaryd-sandbox@.service`, one instance per connection to its socket."""

    path: str = SOCKET

    def complaints(self) -> list[str]:
        """Return why the socket cannot be used."""
        if not Path(self.path).is_socket():
            return [f"{self.path} is no socket"]
        return []

    def cure(self) -> str:
        """Return how to start the socket, or where the unit behind one that takes connections says what it lacks."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.connect(self.path)
        except OSError:
            return _START
        return "look at `journalctl -u 'canaryd-sandbox@*'`"

    def exchange(self, request: bytes, *, wall_s: float) -> Transcript:
        """Send one request over a connection of its own; systemd ends the instance when its main process does."""
        deadline_s = time.monotonic() + wall_s
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(wall_s)
            connection.connect(self.path)
            connection.sendall(request)
            return Transcript(*receive(connection.fileno(), deadline_s=deadline_s))

    def tools(self) -> dict[str, str]:
        """Return that systemd confines; its version does not change what a unit's limits mean."""
        return {"sandbox": "systemd unit"}


def default() -> Backend:
    """Return the unit's socket on a systemd host that has it, else bubblewrap."""
    return SystemdSocket() if Path(SYSTEMD).is_dir() and Path(SOCKET).is_socket() else Bwrap()
