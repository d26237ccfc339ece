"""The web server on loopback: what it serves, whom it refuses, and that a silent client holds up nobody."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import bcrypt
import httpx2 as httpx
import pytest
from daemons import wait_for
from prometheus_client import CollectorRegistry, Gauge

from canaryd.daemon.web import CONNECTIONS, Listen, Views, WebServer, bind
from canaryd.errors import ConfigError, NotListening, UsageError
from canaryd.metrics.exposition import Exposition
from canaryd.report.document import Document
from canaryd.report.page import as_page

State = dict[str, str | None]


@contextmanager
def served(
    state: State,
    config_file: Path | None = None,
    *,
    reports: Mapping[str, Path] = MappingProxyType({}),
    patience_s: float = 10.0,
) -> Iterator[WebServer]:
    registry = CollectorRegistry()
    Gauge("canaryd_example_ratio", "An example.", registry=registry).set(0.5)
    exposition = Exposition(live=registry, settled=CollectorRegistry(), state=lambda: None)
    views = Views(exposition, lambda: state["unhealthy"], lambda: state["unready"], reports, lambda: {"pid": 930})
    listen = Listen(["127.0.0.1:0"])
    server = WebServer(views, listen=listen, config_file=config_file, insecure=False, patience_s=patience_s)
    server.start()
    yield server
    server.stop()


@contextmanager
def serving(state: State, config_file: Path | None = None, **options: Any) -> Iterator[int]:
    with served(state, config_file, **options) as server:
        yield server.ports[0]


@pytest.fixture
def state() -> State:
    return {"unhealthy": None, "unready": None}


def test_the_five_pages(state: State) -> None:
    with serving(state) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        metrics = client.get("/metrics")
        assert "canaryd_example_ratio 0.5" in metrics.text
        assert metrics.headers["content-type"].startswith("text/plain")
        assert 'href="/metrics"' in client.get("/").text
        assert (client.get("/-/healthy").text, client.get("/-/ready").text) == ("healthy\n", "ready\n")
        assert client.get("/-/status").json() == {"pid": 930}
        assert client.head("/metrics").status_code == 200
        assert client.post("/metrics").status_code == 405
        assert client.post("/-/reload").status_code == 404
        assert client.get("/anything").status_code == 404
        state.update(unhealthy="the scheduler has not ticked for 200 s", unready="no snapshot")
        healthy, ready = client.get("/-/healthy"), client.get("/-/ready")
        assert (healthy.status_code, healthy.text) == (503, "the scheduler has not ticked for 200 s\n")
        assert (ready.status_code, ready.text) == (503, "no snapshot\n")


def test_the_report_of_a_configured_series_and_of_nothing_else(state: State, tmp_path: Path) -> None:
    page = as_page(Document("canaryd: main", "main: a drop of −3.0 points & more", ()))
    (tmp_path / "main.html").write_bytes(page.encode())
    (tmp_path / "other.html").write_text("not configured")
    reports = {name: tmp_path / f"{name}.html" for name in ("main", "young")}
    with serving(state, reports=reports) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        report = client.get("/series/main")
        assert (report.status_code, report.text) == (200, page)
        assert report.headers["content-type"] == "text/html; charset=utf-8"
        assert client.post("/series/main").status_code == 405
        young = client.get("/series/young")
        assert (young.status_code, young.text.startswith("There is no report of young here yet")) == (404, True)
        for path in ("other", "main.html", "..%2Fother", "%2E%2E/other.html", "young%00", ""):
            refused = client.get(f"/series/{path}")
            assert (refused.status_code, "not configured" in refused.text) == (404, False), path
        front = client.get("/").text
        for link in ("/series/main", "/series/young", "/metrics", "/-/healthy", "/-/ready"):
            assert f'href="{link}"' in front
        assert "main: a drop of −3.0 points &amp; more" in front
        assert "not measured yet" in front
    with serving(state, reports={"main": reports["main"]}) as port:
        assert httpx.get(f"http://127.0.0.1:{port}/").text == page


def test_openmetrics_is_served_to_who_asks_for_it(state: State) -> None:
    with serving(state) as port:
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        assert httpx.get(f"http://127.0.0.1:{port}/metrics", headers=accept).text.endswith("# EOF\n")


def certify(program: str, folder: Path) -> None:
    """Make a certificate of this machine, and its key."""
    make_key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout k.pem -out c.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([program, *make_key.split(), *subject], cwd=folder, check=True, capture_output=True)


TLS = "tls_server_config:\n  cert_file: c.pem\n  key_file: k.pem\n"


@pytest.fixture
def certified(tmp_path: Path, installed: Callable[..., str]) -> Path:
    certify(installed("openssl"), tmp_path)
    (tmp_path / "web.yml").write_text(TLS)
    return tmp_path


def trusting(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "c.pem"))


def test_tls_and_a_password_and_a_client_that_says_nothing(state: State, certified: Path) -> None:
    hashed = bcrypt.hashpw(b"pass", bcrypt.gensalt(4)).decode()
    (certified / "web.yml").write_text(f"{TLS}basic_auth_users:\n  prom: {hashed}\n")
    ours = trusting(certified)
    with serving(state, certified / "web.yml") as port:
        url = f"https://127.0.0.1:{port}/metrics"
        with socket.create_connection(("127.0.0.1", port)):
            assert httpx.get(url, auth=("prom", "pass"), verify=ours, timeout=10).status_code == 200
        refused = httpx.get(url, verify=ours)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Basic realm="canaryd"')
        assert httpx.get(url, auth=("prom", "word"), verify=ours).status_code == 401


def test_a_renewed_certificate_is_taken_without_a_word(
    state: State, certified: Path, installed: Callable[..., str]
) -> None:
    with serving(state, certified / "web.yml") as port:
        url, before = f"https://127.0.0.1:{port}/-/healthy", trusting(certified)
        assert httpx.get(url, verify=before).text == "healthy\n"
        certify(installed("openssl"), certified)
        assert httpx.get(url, verify=trusting(certified)).text == "healthy\n"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(url, verify=before)
        (certified / "k.pem").write_text("no key")
        assert httpx.get(url, verify=trusting(certified)).text == "healthy\n", "the last good pair stays"


def test_changed_demands_on_clients_are_in_force_from_the_next_connection_on(state: State, certified: Path) -> None:
    with served(state, certified / "web.yml") as server:
        url = f"https://127.0.0.1:{server.ports[0]}/-/healthy"
        old, known = trusting(certified), trusting(certified)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        known.load_cert_chain(certified / "c.pem", certified / "k.pem")
        assert httpx.get(url, verify=old).status_code == 200
        (certified / "web.yml").write_text(TLS + "  min_version: TLS13\n")
        server.reload()
        with pytest.raises(httpx.TransportError):
            httpx.get(url, verify=old)
        asks = TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"
        (certified / "web.yml").write_text(asks)
        with pytest.raises(ConfigError, match=r"ca\.pem: holds no certificates to verify clients by \(No such file"):
            server.reload()
        assert httpx.get(url, verify=trusting(certified)).status_code == 200
        (certified / "ca.pem").write_bytes((certified / "c.pem").read_bytes())
        server.reload()
        with pytest.raises(httpx.TransportError):
            httpx.get(url, verify=trusting(certified))
        assert httpx.get(url, verify=known).status_code == 200
        (certified / "web.yml").write_text("")
        with pytest.raises(ConfigError, match="tls_server_config was taken away, which a running daemon"):
            server.reload()
        assert httpx.get(url, verify=known).status_code == 200


def ended(connection: socket.socket) -> bool:
    """Return whether the other side closes a connection, within what a test may take."""
    connection.settimeout(30)
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_connection_without_a_whole_request_is_closed_and_scraping_goes_on(
    state: State, certified: Path, tls: bool
) -> None:
    with serving(state, certified / "web.yml" if tls else None, patience_s=0.5) as port, ExitStack() as stack:

        def connect(*, hands: bool = True) -> socket.socket:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            if not tls or not hands:
                return connection
            return stack.enter_context(trusting(certified).wrap_socket(connection, server_hostname="127.0.0.1"))

        silent = [connect() for _ in range(CONNECTIONS)]
        without_handshake, half, second, body = connect(hands=False), connect(), connect(), connect()
        half.sendall(b"GET /metrics HTTP/1.1\r\nHost: a")
        second.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\nGET /-/healthy")
        body.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nnot")
        assert all(ended(connection) for connection in (*silent, without_handshake, half, second, body))
        url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/metrics"
        assert httpx.get(url, verify=trusting(certified)).status_code == 200


@contextmanager
def asking(port: int) -> Iterator[socket.socket]:
    """Yield a connection on which the answer to the last request of a client has begun."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET /series/main HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert connection.recv(9) == b"HTTP/1.1 "
        yield connection


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Return a page that no buffer of the system takes as a whole."""
    page = tmp_path / "main.html"
    page.write_bytes(b"x" * (1 << 26))
    return page


def test_clients_that_do_not_read_their_answers_are_closed(
    state: State, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("canaryd.daemon.web.CONNECTIONS", 3)
    with serving(state, reports={"main": large}, patience_s=1.0) as port, asking(port), asking(port):

        def is_served() -> bool:
            return httpx.get(f"http://127.0.0.1:{port}/-/healthy").status_code == 200

        assert not is_served(), "there are as many connections as may be"
        wait_for(is_served, "room for others")


def test_a_client_that_reads_slowly_gets_its_whole_answer(state: State, large: Path) -> None:
    with serving(state, reports={"main": large}, patience_s=1.0) as port, asking(port) as connection:
        parts: list[int] = []

        def is_over() -> bool:
            until = sum(parts) + (1 << 21)
            while sum(parts) < until and (part := connection.recv(1 << 19)):
                parts.append(len(part))
            return sum(parts) < until

        wait_for(is_over, "the page")
        assert sum(parts) > 1 << 26


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("10877", "must be IP:PORT"),
        ("example.org:1", "must be IP:PORT"),
        ("0.0.0.0:0", "faces other machines without TLS"),
        ("[::]:0", "faces other machines without TLS"),
        ("127.0.0.1:99999", "must be IP:PORT"),
    ],
)
def test_addresses_that_are_refused(address: str, said: str) -> None:
    with pytest.raises((UsageError, ConfigError)) as refused:
        bind(address, may_leave_loopback=False)
    assert said in str(refused.value)
    assert refused.value.exit_code == (78 if "TLS" in said else 64), "what has no TLS is not tried again"


def test_a_configured_address_is_refused_by_its_place_in_the_file() -> None:
    with pytest.raises(ConfigError, match=r"^config\.toml:9: daemon\.listen 0\.0\.0\.0:0 faces other machines"):
        bind("0.0.0.0:0", configured_at="config.toml:9: daemon.listen", may_leave_loopback=False)


def test_a_taken_port_is_refused_and_a_wide_address_can_be_allowed() -> None:
    with (
        bind("localhost:0", may_leave_loopback=False) as taken,
        pytest.raises(NotListening, match="choose a free port"),
    ):
        bind(f"127.0.0.1:{taken.getsockname()[1]}", may_leave_loopback=False)
    bind("0.0.0.0:0", may_leave_loopback=True).close()
