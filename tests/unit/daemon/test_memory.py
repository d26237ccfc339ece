"""The memory of the daemon and of its children is closed before there is a key in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from canaryd.daemon import child, resident
from canaryd.daemon.worker import Order

IS_DUMPABLE = """
import ctypes
from canaryd.daemon.memory import close_memory
close_memory()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


class Closed(Exception):
    pass


def close() -> None:
    raise Closed


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux closes a process' memory")
def test_a_process_that_closed_its_memory_cannot_be_dumped() -> None:
    done = subprocess.run([sys.executable, "-c", IS_DUMPABLE], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


def test_the_daemon_closes_its_memory_before_it_reads_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "close_memory", close)
    options = resident.Options(Path("/nowhere/config.toml"), (), None, insecure_listen=False, log_level=None)
    signals: Any = None
    with pytest.raises(Closed):
        resident.run_daemon(options, signals=signals)


def test_a_child_closes_its_memory_once_it_is_the_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered: list[str] = []
    order = Order("measure", "s", "2030-01-01", "/nowhere/config.toml", "", "info")

    def line() -> bytes:
        ordered.append("order")
        return order.to_line()

    monkeypatch.setattr(child, "_order_line", line)
    monkeypatch.setattr(child, "close_memory", close)
    with pytest.raises(Closed):
        child.main()
    assert ordered == ["order"]
