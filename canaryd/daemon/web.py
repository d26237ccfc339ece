"""The web server: reports, /metrics, /-/healthy, /-/ready, /-/status, and at / the series; uvicorn."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from canaryd.daemon.door import Door
from canaryd.daemon.landing import landing_page
from canaryd.daemon.patience import PATIENCE_S, PatientLoop, patient_protocol
from canaryd.errors import ConfigError, NotListening, UsageError
from canaryd.metrics.exposition import Exposition
from canaryd.records import JsonValue
from canaryd.service_config import address_of, listen_problem

CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class Views:
    """What the server shows: the metrics, for each health page why not (None: all is well), and each series' report.

    `reports` are the files of the reports by series; one that does not exist yet is said to be missing. `facts` is what
    `canaryd status` asks for.
    """

    exposition: Exposition
    why_unhealthy: Callable[[], str | None]
    why_unready: Callable[[], str | None]
    reports: Mapping[str, Path]
    facts: Callable[[], Mapping[str, JsonValue]]


def web_app(views: Views, door: Door) -> ASGIApp:
    """Return the application behind its door."""

    def state(why: Callable[[], str | None], fine: str) -> Callable[[Request], Response]:
        def page(_request: Request) -> Response:
            reason = why()
            return PlainTextResponse(f"{reason or fine}\n", status_code=503 if reason else 200)

        return page

    def metrics(request: Request) -> Response:
        text, content_type = views.exposition.render(request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": content_type})

    def page(_request: Request) -> Response:
        return HTMLResponse(landing_page(views.reports))

    routes = [
        Route("/", page, methods=["GET"]),
        Route("/series/{name}", partial(_report, views.reports), methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        Route("/-/healthy", state(views.why_unhealthy, "healthy"), methods=["GET"]),
        Route("/-/ready", state(views.why_unready, "ready"), methods=["GET"]),
        Route("/-/status", lambda _request: JSONResponse(views.facts()), methods=["GET"]),
    ]
    return Guarded(Starlette(routes=routes), door)


def _report(reports: Mapping[str, Path], request: Request) -> Response:
    """Return the report of a configured series; what the path says never becomes a part of a file's name."""
    name = request.path_params["name"]
    if name not in reports:
        return PlainTextResponse("There is no such series; / names those there are.\n", status_code=404)
    try:
        return HTMLResponse(reports[name].read_bytes())
    except FileNotFoundError:
        missing = f"There is no report of {name} here yet; it is written when this daemon has measured or decided.\n"
        return PlainTextResponse(missing, status_code=404)


class Guarded:
    """An application that asks the door about every request first."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        if await run_in_threadpool(self._door.admits, request.headers.get("authorization")):
            await self._app(scope, receive, send)
        else:
            refused = PlainTextResponse(
                "Unauthorized\n", status_code=401, headers={"WWW-Authenticate": 'Basic realm="canaryd"'}
            )
            await refused(scope, receive, send)


class Listen(NamedTuple):
    """Where to serve, and who says so: the place in the configuration, or the flag where that is None."""

    addresses: Sequence[str]
    configured_at: str | None = None


class WebServer:
    """The listening server. Its ports are bound when it is made, it serves from `start` to `stop`.

    `on_web_config` is told of each change of the web configuration whether it was taken over.

    Raises:
        UsageError: an address of the command line is none.
        NotListening: an address is taken.
        ConfigError: the web configuration cannot be used, or has no TLS for an address that faces other machines.
    """

    def __init__(
        self,
        views: Views,
        *,
        listen: Listen,
        config_file: Path | None,
        insecure: bool,
        patience_s: float = PATIENCE_S,
        on_web_config: Callable[[bool], None] = lambda _is_taken_over: None,
    ) -> None:
        self._door, self._patience_s = Door(config_file, on_change=on_web_config), patience_s
        tls = self._door.tls()
        may_leave = insecure or tls is not None
        self._sockets = [
            bind(text, configured_at=listen.configured_at, may_leave_loopback=may_leave) for text in listen.addresses
        ]
        self._server = uvicorn.Server(
            uvicorn.Config(
                web_app(views, self._door),
                http=patient_protocol(patience_s),
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                server_header=False,
                limit_concurrency=CONNECTIONS,
                timeout_graceful_shutdown=2,
                ssl_context_factory=None if tls is None else (lambda _config, _default: tls),
            )
        )
        self._thread = threading.Thread(target=self._serve, name="web", daemon=True)

    @property
    def ports(self) -> tuple[int, ...]:
        """The bound ports, in the order of the addresses."""
        return tuple(bound.getsockname()[1] for bound in self._sockets)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def reload(self) -> None:
        """Read the web configuration and the files that it names again.

        Raises:
            ConfigError: they cannot be taken over; what was in force before stays.
        """
        self._door.reload()

    def stop(self) -> None:
        """End the server and free its ports."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        for bound in self._sockets:
            bound.close()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=partial(PatientLoop, self._patience_s)) as runner:
            runner.run(self._server.serve(self._sockets))


def bind(text: str, *, may_leave_loopback: bool, configured_at: str | None = None) -> socket.socket:
    """Return a listening TCP socket on HOST:PORT, where HOST is an IP address or `localhost`.

    Raises:
        UsageError: the command line names one that is none.
        NotListening: it is taken, or not there.
        ConfigError: it faces other machines although it may not, or the configuration names one that is none.
    """
    source = configured_at or "--web.listen-address"
    address = address_of(text)
    if address is None:
        refusal = ConfigError if configured_at else UsageError
        raise refusal(f"{source} is {text!r}, but {listen_problem(text)}")
    if not address.ip.is_loopback and not may_leave_loopback:
        raise ConfigError(
            f"{source} {text} faces other machines without TLS; name a --web.config.file with tls_server_config, or "
            "allow it with --web.insecure-listen"
        )
    bound = socket.socket(socket.AF_INET6 if address.ip.version == 6 else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((str(address.ip), address.port))
    except OSError as error:
        # Another process may let go of it: a service manager may try again, which it does not after a ConfigError.
        bound.close()
        raise NotListening(f"{source} {text} cannot be used ({error.strerror}); choose a free port") from None
    bound.listen(128)
    return bound
