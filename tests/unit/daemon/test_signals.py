"""The first signal asks to stop, at whatever moment it comes; the second ends the daemon and its child at once."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

#: The daemon's part is played by a few lines, its child by one that waits for the end of its stdin.
DRAINING = """
import sys
from canaryd.daemon.signals import Signals
from canaryd.daemon.worker import Order, Worker
signals = Signals()
order = Order("measure", "main", "2027-01-02", "/x/config.toml", "", "info")
worker = Worker(order, on_event=lambda _: None, command=(sys.executable, "-c", "import sys; sys.stdin.read()"))
print(worker.pid, flush=True)
print(signals.wait(), flush=True)
worker.end(timeout_s=60)
"""
#: A signal arrives while the daemon imports what it needs, as soon as its command is called.
EARLY = """
import os, signal, sys, types
class Early:
    def find_spec(self, name, *_):
        if name == "canaryd.cli.context":
            os.kill(os.getpid(), signal.SIGTERM)
resident = types.ModuleType("canaryd.daemon.resident")
resident.Options = lambda *_: None
resident.run_daemon = lambda _, *, signals: print(signals.wait())
sys.modules[resident.__name__] = resident
sys.meta_path.insert(0, Early())
sys.argv = ["canaryd", "daemon", "--config", __CONFIG__]
from canaryd.cli import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_the_daemon_and_its_child(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", DRAINING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = os.pidfd_open(int(process.stdout.readline()))
        process.send_signal(number)
        assert process.stdout.readline() == "stop\n"
        process.send_signal(number)
        assert process.wait(60) == 130
    assert select.select([child], [], [], 60)[0] == [child], "its child has ended too"
    os.close(child)


def test_a_signal_that_comes_amid_the_start_is_an_ordinary_stop() -> None:
    program = EARLY.replace("__CONFIG__", repr(__file__))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "stop\n", "")
