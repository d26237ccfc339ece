"""The web server on loopback: what it serves, whom it refuses, and that a silent client holds up nobody."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import bcrypt
import httpx2 as httpx
import pytest
from prometheus_client import CollectorRegistry, Gauge

from canaryd.daemon.web import Listen, Views, WebServer, bind
from canaryd.errors import ConfigError, UsageError
from canaryd.metrics.exposition import Exposition
from canaryd.report.document import Document
from canaryd.report.page import as_page

State = dict[str, str | None]


@contextmanager
def serving(
    state: State, config_file: Path | None = None, *, reports: Mapping[str, Path] = MappingProxyType({})
) -> Iterator[int]:
    registry = CollectorRegistry()
    Gauge("canaryd_example_ratio", "An example.", registry=registry).set(0.5)
    exposition = Exposition(live=registry, settled=CollectorRegistry(), state=lambda: None)
    views = Views(exposition, lambda: state["unhealthy"], lambda: state["unready"], reports, lambda: {"pid": 930})
    server = WebServer(views, listen=Listen(["127.0.0.1:0"]), config_file=config_file, insecure=False)
    server.start()
    yield server.ports[0]
    server.stop()


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


@pytest.fixture
def certified(tmp_path: Path, installed: Callable[..., str]) -> Path:
    make_key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout k.pem -out c.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([installed("openssl"), *make_key.split(), *subject], cwd=tmp_path, check=True, capture_output=True)
    hashed = bcrypt.hashpw(b"pass", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(
        f"tls_server_config:\n  cert_file: c.pem\n  key_file: k.pem\nbasic_auth_users:\n  prom: {hashed}\n"
    )
    return tmp_path


def test_tls_and_a_password_and_a_client_that_says_nothing(state: State, certified: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(certified / "c.pem"))
    with serving(state, certified / "web.yml") as port:
        url = f"https://127.0.0.1:{port}/metrics"
        with socket.create_connection(("127.0.0.1", port)):
            assert httpx.get(url, auth=("prom", "pass"), verify=trusting, timeout=10).status_code == 200
        refused = httpx.get(url, verify=trusting)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Basic realm="canaryd"')
        assert httpx.get(url, auth=("prom", "word"), verify=trusting).status_code == 401


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
    with pytest.raises(UsageError) as refused:
        bind(address, may_leave_loopback=False)
    assert said in str(refused.value)


def test_a_configured_address_is_refused_by_its_place_in_the_file() -> None:
    with pytest.raises(ConfigError, match=r"^config\.toml:9: daemon\.listen 0\.0\.0\.0:0 faces other machines"):
        bind("0.0.0.0:0", configured_at="config.toml:9: daemon.listen", may_leave_loopback=False)


def test_a_taken_port_is_refused_and_a_wide_address_can_be_allowed() -> None:
    with bind("localhost:0", may_leave_loopback=False) as taken, pytest.raises(UsageError, match="choose a free port"):
        bind(f"127.0.0.1:{taken.getsockname()[1]}", may_leave_loopback=False)
    bind("0.0.0.0:0", may_leave_loopback=True).close()
