"""How long a connection of the web server may take: silent clients would use up the connections that it allows."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE_S = 10.0


class PatientLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers wait so long for a TLS handshake; asyncio waits 60 s, and uvicorn has no setting."""

    def __init__(self, patience_s: float) -> None:
        super().__init__()
        self._patience_s = patience_s

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        """Return a server as asyncio does."""
        if kwargs.get("ssl") is not None:
            kwargs["ssl_handshake_timeout"] = self._patience_s
        return await super().create_server(*args, **kwargs)


def patient_protocol(patience_s: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol, closing a connection that is not answered so long after it was made or last answered.

    So is one that reads nothing of its last answer for so long. uvicorn itself waits for ever for a request that has
    begun, for the first one of a connection, and for whoever does not read.
    """

    class Patient(H11Protocol):
        """One connection, with a deadline that each answer puts off."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
            """Begin to wait for a request."""
            super().connection_made(transport)
            self._wait()

        def on_response_complete(self) -> None:
            """Begin to wait for the next one."""
            self._deadline.cancel()
            self._wait()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            """Wait no longer."""
            self._deadline.cancel()
            super().connection_lost(exc)

        def _wait(self, unsent: float = math.inf) -> None:
            self._deadline = self.loop.call_later(patience_s, self._look, unsent)

        def _look(self, unsent: float) -> None:
            left = self.transport.get_write_buffer_size()
            if self.transport.is_closing() and left < unsent:  # its answer is still being read
                self._wait(left)
            else:
                self.transport.abort()

    return Patient
