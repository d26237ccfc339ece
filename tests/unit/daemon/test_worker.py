"""The child process from outside: it gets its order, gives signs of life, and never outlives its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from canaryd.daemon.worker import Order, Worker

ORDER = Order("measure", "main", "2027-01-02", "/x/config.toml", "text\nof the file", "info")
ECHO = "import sys; print(sys.stdin.readline(), end='', flush=True)"
WAITING = "import sys; print('{}', flush=True); sys.stdin.read()"


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


def test_an_order_survives_the_pipe_and_lines_are_signs_of_life() -> None:
    events: list[Mapping[str, Any]] = []
    worker = Worker(ORDER, on_event=events.append, command=python(ECHO))
    worker.begin()
    assert worker.end(timeout_s=30) == 0
    assert worker.ended() == 0
    assert Order.from_line(ORDER.to_line()) == ORDER == Order(**events[0])
    assert ORDER.date.isoformat() == "2027-01-02"


def test_a_child_that_does_not_end_in_time_is_killed() -> None:
    begun = threading.Event()
    worker = Worker(ORDER, on_event=lambda _: begun.set(), command=python(WAITING))
    assert begun.wait(30)
    assert worker.ended() is None
    assert worker.silent_s >= 0
    assert worker.end(timeout_s=0) == -9


def test_a_child_that_is_told_to_drain_gets_the_signal() -> None:
    begun = threading.Event()
    worker = Worker(ORDER, on_event=lambda _: begun.set(), command=python(WAITING))
    assert begun.wait(30)
    worker.drain()
    assert worker.end(timeout_s=30) == -15
    worker.drain()


def test_ctrl_c_in_a_terminal_does_not_reach_a_child() -> None:
    worker = Worker(ORDER, on_event=lambda _: None, command=python(WAITING))
    assert os.getsid(worker.pid) == worker.pid != os.getsid(0)
    worker.end(timeout_s=0)


def test_a_child_that_ended_at_once_takes_no_order() -> None:
    worker = Worker(ORDER, on_event=lambda _: None, command=python("raise SystemExit(78)"))
    while worker.ended() is None:
        continue
    worker = Worker(ORDER, on_event=lambda _: None, command=python("import os; os.close(0); raise SystemExit(78)"))
    worker.begin()
    assert worker.end(timeout_s=30) == 78


def test_the_real_child_ends_when_nobody_gives_it_an_order() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "canaryd.daemon.child"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (70, b"")


def test_the_real_child_ends_without_a_word_when_its_parent_is_gone() -> None:
    config = '[[series]]\nname = "main"\npanel = "p"\n[[series.arm]]\nname = "a"\nrole = "tracked"\n'
    config += 'provider = "simulated"\nmodel = "m"\n'
    order = Order("measure", "main", "2027-01-02", "/x/config.toml", config, "info")
    reader, writer = os.pipe()
    os.close(reader)
    child = subprocess.Popen(
        [sys.executable, "-m", "canaryd.daemon.child"],
        stdin=subprocess.PIPE,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert child.stdin is not None
    child.stdin.write(order.to_line())
    child.stdin.flush()
    assert child.wait(60) == 70
    assert child.stderr is not None
    assert child.stderr.read() == b""
    child.stdin.close()
    child.stderr.close()
