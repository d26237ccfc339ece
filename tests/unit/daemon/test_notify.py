"""The service manager's protocol, spoken to a socket of our own."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from canaryd.daemon.notify import Notifier


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(5)
        yield listening


def test_every_message_is_one_datagram(manager: socket.socket) -> None:
    notifier = Notifier(
        {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "180000000", "WATCHDOG_PID": "7"}, pid=7
    )
    assert notifier.watchdog_s == 180.0
    notifier.status("idle\nand so on")
    notifier.status("idle\nand so on")
    notifier.ready()
    notifier.alive()
    notifier.stopping(extend_s=90)
    said = [manager.recv(1000).decode() for _ in range(4)]
    assert said == ["STATUS=idle and so on", "READY=1", "WATCHDOG=1", "STOPPING=1\nEXTEND_TIMEOUT_USEC=90000000"]


def test_an_abstract_address_begins_with_an_at_sign() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0canaryd-test-notify")
        listening.settimeout(5)
        Notifier({"NOTIFY_SOCKET": "@canaryd-test-notify"}, pid=1).reloading()
        assert listening.recv(100) == b"RELOADING=1"


def test_without_a_manager_nothing_is_sent_and_no_watchdog_is_asked_for() -> None:
    notifier = Notifier({}, pid=7)
    notifier.ready()
    assert notifier.watchdog_s is None
    assert Notifier({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "8"}, pid=7).watchdog_s is None


def test_a_manager_that_cannot_be_reached_is_a_warning_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for nowhere in (str(tmp_path / "gone"), "x" * 200, "not/../absolute"):
        caplog.clear()
        notifier = Notifier({"NOTIFY_SOCKET": nowhere}, pid=7)
        notifier.ready()
        notifier.alive()
        assert len(caplog.messages) == 1, nowhere
        assert caplog.messages[0].startswith("service manager not told (")
