"""A child process as its parent sees it: an order goes in, signs of life come out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Literal

#: A slot is measured or its windows decided under the lease; the rest are errands beside that.
Work = Literal["measure", "decide", "regrade", "tell", "copy"]
_PARENTS_OWN = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


@dataclass(frozen=True, slots=True)
class Order:
    """What a child is to do, with the configuration as its parent loaded it, not as the file reads now.

    `series` is empty where the work is on the whole store.
    """

    work: Work
    series: str
    slot_date: str
    config_path: str
    config_text: str
    log_level: str

    @property
    def date(self) -> date:
        """The slot date."""
        return date.fromisoformat(self.slot_date)

    def to_line(self) -> bytes:
        """Return the order as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Order:
        """Return the order in a line of `to_line`."""
        return cls(**json.loads(line))


class Worker:
    """A running child. Its stdin stays open: when this process dies, the child reads the end of it and dies too.

    Every line that the child writes is a sign of life and goes to `on_event`, from another thread.
    """

    def __init__(
        self,
        order: Order,
        *,
        on_event: Callable[[Mapping[str, Any]], None],
        command: tuple[str, ...] = (sys.executable, "-m", "canaryd.daemon.child"),
    ) -> None:
        self.order = order
        self._on_event = on_event
        self._last_beat_s = time.monotonic()
        environment = {name: value for name, value in os.environ.items() if name not in _PARENTS_OWN}
        self._process = subprocess.Popen(  # noqa: S603 - our own module under our own interpreter
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C goes to all of a terminal's processes; when a child ends its parent says
        )
        self._reader = threading.Thread(target=self._read, name=f"child-{order.series}", daemon=True)
        self._reader.start()

    def begin(self) -> None:
        """Give the child its order; until then it waits."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # a child that ended at once: its exit code says why
            self._process.stdin.write(self.order.to_line())
            self._process.stdin.flush()

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._process.pid

    @property
    def silent_s(self) -> float:
        """How long ago the child gave its last sign of life."""
        return time.monotonic() - self._last_beat_s

    def ended(self) -> int | None:
        """Return the child's exit code, None while it runs; a signal that killed it is negative."""
        code = self._process.poll()
        if code is not None:
            self._close()
        return code

    def drain(self) -> None:
        """Tell the child to begin no further call and to end when those in flight have."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def end(self, timeout_s: float) -> int:
        """Wait for the child to end, kill it where it does not in time, and return its exit code."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._close()
        return code

    def _close(self) -> None:
        self._reader.join(timeout=5)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._last_beat_s = time.monotonic()
            self._on_event(json.loads(line))
