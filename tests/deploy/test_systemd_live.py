"""The units under a live systemd: installed, started, fed with a key, measuring, killed, reloaded, stopped, removed."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from daemons import free_port, wait_for, write_sums
from machine import Machine, booted

KEY = "zq-habitat-4f1c9be2"
CODE = "<answer>def double(x):\n    return 2 * x</answer>"
ETC = "/etc/canaryd"
#: What no program that a model writes may do, tried where such programs are run.
HOSTILE = """
import json, random
from canaryd import sandbox
from canaryd.graders.base import Job
TRIED = {
    "network": "import socket\\ndef f(x):\\n    socket.create_connection(('127.0.0.1', PORT)); return 'connected'",
    "socket": "import socket\\ndef f(x):\\n    socket.socket(socket.AF_UNIX); return 'made'",
    "files": "from glob import glob\\ndef f(x):\\n    return glob('/etc/*') + glob('/opt/*') + glob('/var/*')",
    "memory": "def f(x):\\n    return len(bytearray(1 << 30))",
    "disk": "def f(x):\\n    for n in range(9): open(f'/work/{n}', 'wb').write(bytes(15 << 20))",
    "kill": "import os\\ndef f(x):\\n    os.kill(-1, 9)",
    "sets": "def f(x):\\n    return list({'a', 'b', 'c', 'd'})",
}
for name, code in TRIED.items():
    job = Job(code=code.replace("PORT", "18080"), entry="f", inputs=([1],))
    result = sandbox.execute(job, backend=sandbox.SystemdSocket(), rng=random.Random(1))
    print(json.dumps([name, result.outcome, list(result.outputs)]))
"""

PROBE = """
import random
from canaryd import sandbox
assert sandbox.probe(backend=sandbox.Bwrap(), rng=random.Random(1)).outcome == "returned"
"""
#: Makes a database of the daemon's user in a cluster of its own, and prints its URL.
CLUSTER = """
set -eu
version=$(ls /usr/lib/postgresql | sort -n | tail -1)
pg_createcluster "$version" live --start >/dev/null
port=$(pg_lsclusters --no-header | awk '$2 == "live" { print $3 }')
runuser -u postgres -- psql -q -p "$port" -c 'CREATE ROLE canaryd LOGIN' -c 'CREATE DATABASE canaryd OWNER canaryd'
echo "postgresql:///canaryd?port=$port"
"""


class Model:
    """An OpenAI-compatible endpoint that answers only who brings the key."""

    def __init__(self) -> None:
        self.refused = 0
        numbers, model = itertools.count(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.headers["Authorization"] != f"Bearer {KEY}":
                    model.refused += 1
                    self._answer(401, {"error": {"message": "no such key", "code": "invalid_api_key"}})
                    return
                text = CODE if "double" in asked["messages"][-1]["content"] else "<answer>8</answer>"
                choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
                usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
                kind = {
                    "id": f"reply-{next(numbers)}",
                    "object": "chat.completion",
                    "created": 0,
                    "model": asked["model"],
                }
                self._answer(200, {**kind, "choices": [choice], "usage": usage})

            def _answer(self, status: int, answer: dict[str, Any]) -> None:
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Stay quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    served = Model()
    yield served
    served.close()


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def machine(
    installed: Callable[..., str], model: Model, port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """A machine on which an operator has installed canaryd, as docs/operations.md says, and registered a series."""
    folder = tmp_path_factory.mktemp("machine")
    with booted(folder, installed("systemd-nspawn")) as live:
        install(live)
        write_panel(live, folder)
        live.put(f"{ETC}/config.toml", config(live, model, port))
        live.put("/etc/credstore/canaryd.openai_api_key", KEY)
        live.out("chmod", "600", "/etc/credstore/canaryd.openai_api_key")
        install(live)
        live.out("canaryd-service", "db", "upgrade")
        live.out("systemctl", "enable", "--now", "canaryd-sandbox.socket")
        live.out("canaryd-service", "register", "--start", "today")
        live.out("canaryd-service", "doctor")
        yield live


def install(live: Machine) -> str:
    return live.out("sh", "/opt/checkout/deploy/systemd/install.sh")


def config(live: Machine, model: Model, port: int) -> str:
    """Return the installed example, with another panel, a model on this machine and a calendar of its own."""
    live.put(f"{ETC}/clock.txt", "2027-03-01T04:00:00Z\n")
    text = live.out("cat", f"{ETC}/config.toml")
    for old, new in {
        "panel/starter.jsonl": "panel/small.jsonl",
        "https://api.openai.com/v1": model.base_url,
        "allow_env = true ": "allow_env = false",
        "# [daemon]\n": f'[demo]\nclock = "clock.txt"\n[daemon]\nlisten = "127.0.0.1:{port}"\n',
    }.items():
        assert old in text
        text = text.replace(old, new)
    return text


def write_panel(live: Machine, folder: Path) -> None:
    """Write sums, of which the model knows one, and one item of code, which it knows."""
    write_sums(folder, 29)
    code = {
        "id": "code",
        "family": "code",
        "cluster": "code",
        "prompt": "Write a function called double.",
        "target": {"solution": "def double(x):\n    return 2 * x", "tests": [{"args": [2], "returns": 4}]},
        "grader": {"type": "code", "entry": "double"},
    }
    live.put(f"{ETC}/panel/small.jsonl", (folder / "small.jsonl").read_text() + json.dumps(code) + "\n")
    live.put(f"{ETC}/panel/small.system.txt", (folder / "small.system.txt").read_text())
    live.out("/opt/canaryd/bin/canaryd", "panel", "freeze", f"{ETC}/panel/small.jsonl")


def figures(port: int) -> dict[str, float]:
    """Return what the daemon exports, by metric and labels."""
    page = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
    lines = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def idle(live: Machine) -> bool:
    return live.shown("canaryd", "StatusText").startswith("idle, next run 2027-03-02")


def test_the_service_measures_with_its_key_and_grades_code_in_the_other_unit(
    machine: Machine, model: Model, port: int
) -> None:
    machine.out("systemctl", "enable", "--now", "canaryd.service")
    wait_for(lambda: idle(machine), "the day is measured")
    found = figures(port)
    for arm in ("tracked", "control"):
        labels = f'arm="{arm}",series="main"'
        assert found[f"canaryd_run_samples{{{labels}}}"] == 30
        # One sum in thirty is 8, and the program is right.
        assert found[f"canaryd_run_score_ratio{{{labels}}}"] == pytest.approx(2 / 30)
        assert found[f"canaryd_run_last_success_timestamp_seconds{{{labels}}}"] > 0
    # Each of the two programs is run twice.
    assert found["canaryd_sandbox_executions_total"] >= 2
    assert sum(value for name, value in found.items() if name.startswith("canaryd_sandbox_failures_total")) == 0
    assert model.refused == 0


def test_the_key_is_in_no_environment_no_command_line_and_no_journal(machine: Machine) -> None:
    key = "/etc/credstore/canaryd.openai_api_key"
    looked = machine.run(
        "sh", "-c", f"grep --fixed-strings -l -a -f {key} {key} /proc/[0-9]*/environ /proc/[0-9]*/cmdline"
    )
    assert looked.stdout.split() == [key], "and so it would be found"
    journal = machine.out("journalctl", "--unit=canaryd", "--output=json", "--lines=all")
    assert KEY not in journal
    assert {json.loads(line)["PRIORITY"] for line in journal.splitlines()} >= {"6"}
    memory = f"/proc/{machine.shown('canaryd', 'MainPID')}/mem"
    assert machine.out("stat", "--format=%U", memory).strip() == "root", "only root may look into it"


def test_what_a_model_writes_cannot_leave_the_other_unit(machine: Machine) -> None:
    machine.put("/usr/local/lib/hostile.py", HOSTILE)
    said = machine.out("runuser", "-u", "canaryd", "--", "/opt/canaryd/bin/python", "/usr/local/lib/hostile.py")
    found = {name: (outcome, outputs) for name, outcome, outputs in map(json.loads, said.splitlines())}
    # Twice in the same order, or it would be `differs`.
    assert found.pop("sets")[0] == "returned"
    assert found == {
        "network": ("exception", []),
        "socket": ("exception", []),
        "files": ("returned", [[]]),
        "memory": ("memory", []),
        "disk": ("exception", []),
        "kill": ("protocol_error", []),
    }
    assert machine.out("systemctl", "list-units", "--all", "--plain", "--no-legend", "canaryd-sandbox@*") == ""


def test_a_reload_takes_over_what_may_change_and_refuses_the_rest(machine: Machine, port: int) -> None:
    before = machine.out("cat", f"{ETC}/config.toml")
    reload_worked = "canaryd_config_last_reload_successful"
    for old, new, worked in (("seed = 1 ", "seed = 2 ", 0.0), ("calls = 4 ", "calls = 3 ", 1.0)):
        assert old in before
        machine.put(f"{ETC}/config.toml", before.replace(old, new))
        machine.out("systemctl", "reload", "canaryd")
        wait_for(lambda worked=worked: figures(port)[reload_worked] == worked, f"reloading {new}")
    machine.put(f"{ETC}/config.toml", before)
    refused = machine.out("journalctl", "--unit=canaryd", "--priority=err", "--output=cat")
    assert "series 'main' (seed) changed" in refused
    assert machine.shown("canaryd", "ActiveState") == "active"


def test_a_daemon_that_hangs_is_started_again(machine: Machine) -> None:
    machine.put("/run/systemd/system/canaryd.service.d/quick.conf", "[Service]\nWatchdogSec=2\nRestartSec=100ms\n")
    machine.out("systemctl", "daemon-reload")
    machine.out("systemctl", "restart", "canaryd")
    hanging = machine.shown("canaryd", "MainPID")
    machine.out("kill", "-STOP", hanging)
    wait_for(lambda: machine.shown("canaryd", "NRestarts") == "1" and idle(machine), "the watchdog")
    assert machine.shown("canaryd", "MainPID") not in ("0", hanging)


def test_a_key_that_is_gone_closes_its_arms_and_ends_no_daemon(machine: Machine) -> None:
    machine.out("mv", "/etc/credstore/canaryd.openai_api_key", "/root/kept")
    machine.out("systemctl", "restart", "canaryd")
    assert machine.shown("canaryd", "ActiveState") == "active"
    doctor = machine.run("canaryd-service", "doctor")
    assert doctor.returncode == 69
    assert "the key is empty" in doctor.stdout
    machine.out("mv", "/root/kept", "/etc/credstore/canaryd.openai_api_key")
    machine.out("systemctl", "restart", "canaryd")
    machine.out("canaryd-service", "doctor")


def test_a_signal_to_canaryd_service_ends_the_command_too(machine: Machine) -> None:
    watching = "canaryd-service status --watch >/root/watched 2>&1 & echo $!"
    pid = machine.out("sh", "-c", watching).strip()
    wait_for(lambda: "day 1" in machine.run("cat", "/root/watched").stdout, "status is shown")
    machine.out("kill", pid)
    wait_for(lambda: machine.run("kill", "-0", pid).returncode != 0, "the script ends")
    assert machine.out("systemctl", "list-units", "--plain", "--no-legend", "canaryd-command-*") == ""


def test_a_stop_is_a_success_and_a_wrong_configuration_is_not_tried_again(machine: Machine) -> None:
    machine.out("systemctl", "stop", "canaryd")
    assert (machine.shown("canaryd", "Result"), machine.shown("canaryd", "ExecMainStatus")) == ("success", "0")
    before = machine.out("cat", f"{ETC}/config.toml")
    machine.put(f"{ETC}/config.toml", before.replace("[schedule]", "[shedule]"))
    assert machine.run("systemctl", "start", "canaryd").returncode != 0
    assert (machine.shown("canaryd", "ExecMainStatus"), machine.shown("canaryd", "NRestarts")) == ("78", "0")
    assert "did you mean schedule?" in machine.out("journalctl", "--unit=canaryd", "--output=cat", "--lines=20")
    machine.put(f"{ETC}/config.toml", before)


def test_bubblewrap_works_in_the_daemons_unit_with_its_drop_in_alone(machine: Machine) -> None:
    """A unit with every property of the daemon's, and another program."""
    machine.put("/usr/local/lib/probe.py", PROBE)
    text = machine.out("cat", "/usr/lib/systemd/system/canaryd.service")
    kept = [
        line for line in text.splitlines() if not line.startswith(("Type=", "Exec", "Watchdog", "Restart", "Notify"))
    ]
    program = "[Service]\nType=oneshot\nExecStart=/opt/canaryd/bin/python /usr/local/lib/probe.py\n"
    unit = "/run/systemd/system/probe.service"
    machine.put(unit, "\n".join(kept) + "\n" + program)
    machine.out("systemctl", "daemon-reload")
    assert machine.run("systemctl", "start", "probe").returncode == 1
    machine.put(f"{unit}.d/bwrap.conf", machine.out("cat", "/opt/checkout/deploy/systemd/canaryd-bwrap.conf"))
    machine.out("systemctl", "daemon-reload")
    machine.out("systemctl", "start", "probe")


def test_the_unit_reaches_postgresql_by_peer_authentication(
    installed: Callable[..., str], model: Model, tmp_path: Path
) -> None:
    with booted(tmp_path, installed("systemd-nspawn")) as live:
        if live.run("which", "pg_createcluster").returncode != 0:
            pytest.skip("Debian's pg_createcluster is missing")
        install(live)
        write_panel(live, tmp_path)
        url = live.out("sh", "-c", CLUSTER).strip()
        text = config(live, model, free_port()).replace("sqlite:////var/lib/canaryd/canaryd.db", url)
        live.put(f"{ETC}/config.toml", text)
        live.out("canaryd-service", "db", "upgrade")
        assert "/var/lib/canaryd/registration-main.md" in live.out("canaryd-service", "register", "--start", "today")
        live.out("systemctl", "start", "canaryd")
        wait_for(
            lambda: "BLOCKED credentials" in live.out("canaryd-service", "status"), "a run without a key is refused"
        )


def test_uninstalling_takes_the_units_and_leaves_the_data(machine: Machine) -> None:
    machine.out("systemctl", "reset-failed")
    machine.out("systemctl", "start", "canaryd")
    machine.out("sh", "/opt/checkout/deploy/systemd/install.sh", "--uninstall")
    assert machine.shown("canaryd", "LoadState") == "not-found"
    assert machine.run("pgrep", "-f", "canaryd daemon").returncode == 1
    kept = machine.out("ls", "/var/lib/canaryd", ETC, "/etc/credstore")
    assert all(name in kept for name in ("canaryd.db", "config.toml", "canaryd.openai_api_key"))
    assert "installed" in install(machine)
