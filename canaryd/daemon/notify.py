"""Telling the service manager how it goes: one datagram to $NOTIFY_SOCKET, as far as one is there."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping

_LOG = logging.getLogger("canaryd.notify")


class Notifier:
    """The sd_notify protocol. `watchdog_s` is how often a sign of life is due, None where none is asked for."""

    def __init__(self, env: Mapping[str, str], *, pid: int) -> None:
        address = env.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the zero byte of an abstract address.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        asked = env.get("WATCHDOG_USEC") if env.get("WATCHDOG_PID", str(pid)) == str(pid) else None
        self.watchdog_s = int(asked) / 1e6 if asked else None
        self._status = ""
        self._is_heard = True

    def ready(self) -> None:
        """Say that the service is up (or up again after a reload)."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Say that the configuration is being read again."""
        self._send("RELOADING=1")

    def stopping(self, *, extend_s: float) -> None:
        """Say that the service ends, and may take this long."""
        self._send(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={int(extend_s * 1e6)}")

    def status(self, text: str) -> None:
        """Set the line that `systemctl status` shows; an unchanged one is not sent again."""
        if text != self._status:
            self._status = text
            self._send("STATUS=" + text.replace("\n", " "))

    def alive(self) -> None:
        """Give the watchdog its sign of life."""
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            # Nobody may be listening any more; what is measured does not depend on it.
            if self._is_heard:
                _LOG.warning("service manager not told (%s); see NOTIFY_SOCKET", error.strerror or error)
            self._is_heard = False
        else:
            self._is_heard = True
