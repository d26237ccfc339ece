"""The sandbox as the runner uses it: what goes in, what is believed, what it refuses, and what it is made of."""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from canaryd import graders, panel, sandbox
from canaryd.errors import MeasurementRefused
from canaryd.graders import Job, JobResult
from canaryd.sandbox import Bwrap, Limits, SandboxError, SandboxUnavailable, SystemdSocket, seccomp
from canaryd.sandbox.backends import Transcript, child_source

real = pytest.mark.skipif(
    shutil.which("bwrap") is None and not os.environ.get("CANARYD_REQUIRE_REAL"), reason="bubblewrap is not installed"
)
STARTER = Path(__file__).parents[2] / "panel" / "starter.jsonl"
SQUARE = Job("def f(x):\n    return x * x\n", "f", tuple([n] for n in range(8)))
LIMITS = Limits(cpu_s=2, wall_s=4)


def frame(message: object) -> bytes:
    """Return a message as the child sends it."""
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(data)) + data


@dataclass
class Scripted:
    """A backend that answers what it is told, with the nonce of the request where a message says NONCE."""

    messages: list[Any]
    ended: Any = "closed"
    requests: list[dict[str, Any]] = field(default_factory=list)
    walls_s: list[float] = field(default_factory=list)

    def complaints(self) -> list[str]:
        return []

    def cure(self) -> str:
        return "mend the script"

    def tools(self) -> dict[str, str]:
        return {"sandbox": "scripted"}

    def exchange(self, request: bytes, *, wall_s: float) -> Transcript:
        (size,) = struct.unpack(">I", request[:4])
        assert size == len(request) - 4
        self.requests.append(json.loads(request[4:]))
        self.walls_s.append(wall_s)
        nonce = self.requests[-1]["nonce"]
        data = b"".join(
            frame(json.loads(json.dumps(m).replace("NONCE", nonce))) if isinstance(m, dict) else m
            for m in self.messages
        )
        return Transcript(data, self.ended, "scripted trouble")


READY = {"nonce": "NONCE", "ready": True}
JOB = Job("def f(x): return x", "f", ([1], [2]))


def scripted(*messages: Any, ended: str = "closed") -> JobResult:
    """Return the result of a job whose sandbox sends these messages."""
    return sandbox.execute(JOB, backend=Scripted(list(messages), ended), rng=random.Random(1))


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [b"bwrap: no"],
        [{"nonce": "other", "ready": True}],
        [{"nonce": "NONCE", "outcome": "returned", "outputs": [1, 2]}],
        [{"nonce": "NONCE", "ready": False}],
    ],
)
def test_a_sandbox_that_does_not_start_is_no_wrong_answer(messages: list[Any]) -> None:
    with pytest.raises(SandboxError, match="did not start"):
        scripted(*messages)


def test_a_sandbox_that_cannot_be_reached_is_no_wrong_answer(tmp_path: Path) -> None:
    for backend in (Bwrap(executable=str(tmp_path / "bwrap")), SystemdSocket(str(tmp_path / "socket"))):
        assert backend.complaints()
        with pytest.raises(SandboxError, match="cannot be reached"):
            sandbox.execute(JOB, backend=backend, rng=random.Random(1))


@pytest.mark.parametrize(
    ("messages", "ended", "outcome"),
    [
        ([READY], "closed", "protocol_error"),
        ([READY], "deadline", "timeout"),
        ([READY, b"x" * 1000], "flood", "output_limit"),
        ([READY, b"\0\0"], "closed", "protocol_error"),
        ([READY, frame(b"[1]")], "closed", "protocol_error"),
        ([READY, frame(b'{"outcome": NaN}')], "closed", "protocol_error"),
        ([READY, {"nonce": "other", "outcome": "returned", "outputs": [1, 2]}], "closed", "protocol_error"),
        ([READY, {"nonce": "NONCE", "outcome": "pass"}], "closed", "protocol_error"),
        ([READY, {"nonce": "NONCE", "outcome": "sandbox_error"}], "closed", "protocol_error"),
        ([READY, {"nonce": "NONCE", "outcome": "differs"}], "closed", "protocol_error"),
        ([READY, {"nonce": "NONCE", "outcome": ["returned"]}], "closed", "protocol_error"),
        ([READY, {"nonce": "NONCE", "outcome": "returned", "outputs": [1]}], "closed", "protocol_error"),
        ([READY, {"nonce": "NONCE", "outcome": "returned", "outputs": {"0": 1}}], "closed", "protocol_error"),
        ([READY, {"nonce": "NONCE", "outcome": "memory"}], "closed", "memory"),
        ([READY, {"nonce": "NONCE", "outcome": "memory"}, READY], "closed", "protocol_error"),
    ],
)
def test_only_a_complete_answer_with_the_nonce_is_believed(messages: list[Any], ended: str, outcome: str) -> None:
    assert scripted(*messages, ended=ended).outcome == outcome


def test_each_run_has_its_own_nonce_and_order_and_gets_no_expected_output() -> None:
    backend = Scripted([READY, {"nonce": "NONCE", "outcome": "returned", "outputs": [0] * 8}])
    item = next(one for one in panel.load(str(STARTER), graders=graders).items if one.grader.type == "code")
    job = graders.job(item, graders.right_reply(item).replace("return", "return  "))
    assert job is not None

    sandbox.execute(SQUARE, backend=backend, rng=random.Random(1))
    sandbox.execute(job, backend=backend, rng=random.Random(1))

    first, second, code = backend.requests[:3]
    assert first["nonce"] != second["nonce"]
    assert first["inputs"] != second["inputs"]
    assert sorted(first["inputs"]) == sorted(second["inputs"]) == sorted(SQUARE.inputs)
    assert code.keys() == {"nonce", "code", "entry", "inputs", "limits"}
    assert "returns" not in json.dumps(code)
    assert all(wall_s > Limits().wall_s for wall_s in backend.walls_s)


def test_outputs_come_back_in_the_order_of_the_inputs() -> None:
    class Echo(Scripted):
        def exchange(self, request: bytes, *, wall_s: float) -> Transcript:
            asked = json.loads(request[4:])
            outputs = [one for (one,) in asked["inputs"]]
            self.messages = [READY, {"nonce": "NONCE", "outcome": "returned", "outputs": outputs}]
            return super().exchange(request, wall_s=wall_s)

    assert sandbox.execute(SQUARE, backend=Echo([]), rng=random.Random(3)).outputs == tuple(range(8))


@pytest.mark.parametrize(
    "result",
    [
        {"nonce": "NONCE", "outcome": "timeout"},
        {"nonce": "NONCE", "outcome": "returned", "outputs": [0, [], [], []]},
    ],
)
def test_a_probe_that_goes_wrong_blocks_the_run(result: dict[str, Any]) -> None:
    with pytest.raises(MeasurementRefused) as refused:
        sandbox.probe(backend=Scripted([READY, result]), rng=random.Random(1))

    assert refused.value.reason == "sandbox_unavailable"
    assert "panel without code items" in str(refused.value)


def test_a_probe_without_a_sandbox_blocks_the_run_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = "start it: `systemctl enable --now canaryd-sandbox.socket`"
    monkeypatch.setattr("canaryd.sandbox.backends.SYSTEMD", str(tmp_path / "none"))
    absent = refusal(Bwrap(executable=str(tmp_path / "bwrap")))
    assert "bwrap does not exist; install the distribution's package bubblewrap and allow user namespaces" in absent
    assert "systemctl" not in absent, "no systemd runs here"
    monkeypatch.setattr("canaryd.sandbox.backends.SYSTEMD", str(tmp_path))
    assert f"bwrap does not exist; {start}; without that unit, install" in refusal(
        Bwrap(executable=str(tmp_path / "bwrap"))
    )
    assert f"s is no socket; {start}, or measure a panel without code items" in refusal(
        SystemdSocket(str(tmp_path / "s"))
    )
    assert "(scripted trouble); mend the script, or" in refusal(Scripted([]))


def test_a_socket_that_refuses_is_started_and_behind_one_that_answers_the_journal_is_looked_at(tmp_path: Path) -> None:
    backend = SystemdSocket(str(tmp_path / "s"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(backend.path)
        refused = refusal(backend)
        server.listen()
        assert backend.cure() == "look at `journalctl -u 'canaryd-sandbox@*'`"
    assert "Connection refused); start it: `systemctl enable --now canaryd-sandbox.socket`, or" in refused
    assert "canaryd doctor" not in refused, "it is doctor who says so"


def refusal(backend: Any) -> str:
    """Return what a probe of a sandbox that does not work says."""
    with pytest.raises(SandboxUnavailable) as refused:
        sandbox.probe(backend=backend, rng=random.Random(1))
    assert refused.value.reason == "sandbox_unavailable"
    assert str(refused.value) == f"{refused.value.problem}; {refused.value.cure}"
    return str(refused.value)


def test_a_setuid_bubblewrap_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("")
    program.chmod(0o4755)

    assert Bwrap(executable=str(program)).complaints() == [f"{program} is setuid, and must not be"]


@real
def test_a_probe_that_goes_well_describes_the_sandbox() -> None:
    backend = Bwrap()
    result = sandbox.probe(backend=backend, rng=random.Random(1))

    parts = sandbox.components(result, backend=backend)
    assert parts["sandbox"].startswith("bubblewrap ")
    assert parts["interpreter"].startswith("3.")
    assert parts["interpreter_path"] == "/usr/bin/python3"
    assert parts == sandbox.components(sandbox.probe(backend=backend, rng=random.Random(2)), backend=backend)
    assert parts["limits"] != sandbox.components(result, backend=backend, limits=LIMITS)["limits"]


@real
def test_a_probe_notices_what_a_program_must_not_see() -> None:
    with pytest.raises(MeasurementRefused, match="a program inside can see var;"):
        sandbox.probe(backend=Bwrap(tree="/var/lib"), rng=random.Random(1))


@real
def test_bubblewrap_that_cannot_start_says_why() -> None:
    with pytest.raises(SandboxError, match="nowhere"):
        sandbox.execute(SQUARE, backend=Bwrap(interpreter="/usr/bin/nowhere"), rng=random.Random(1))


@real
def test_the_solutions_of_the_starter_panel_pass_in_the_sandbox() -> None:
    items = [one for one in panel.load(str(STARTER), graders=graders).items if one.grader.type == "code"]
    for item in items:
        job = graders.job(item, graders.right_reply(item))
        assert job is not None
        result = sandbox.execute(job, backend=Bwrap(), rng=random.Random(1))
        assert graders.grade(item, result).passed, item.item_id

    assert len(items) == 12


@real
def test_a_program_of_a_megabyte_is_run() -> None:
    job = Job("# " + "x" * 1_000_000 + "\n" + SQUARE.code, "f", SQUARE.inputs)

    assert sandbox.execute(job, backend=Bwrap(), rng=random.Random(1), limits=LIMITS).outputs == tuple(
        n * n for n in range(8)
    )


@real
def test_no_descriptor_is_left_open() -> None:
    before = set(Path("/proc/self/fd").iterdir())

    for code in (SQUARE.code, "import os\nos._exit(1)", "x = "):
        sandbox.execute(Job(code, "f", ([1],)), backend=Bwrap(), rng=random.Random(1), limits=LIMITS)

    assert set(Path("/proc/self/fd").iterdir()) == before


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[str]:
    """A socket that starts the child for each connection, with the connection as its input and output."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    subprocess.run(
                        ["/usr/bin/python3", "-I", "-S", "-c", child_source()],
                        stdin=connection,
                        stdout=connection,
                        stderr=subprocess.DEVNULL,
                        check=False,
                    )

        thread = threading.Thread(target=serve)
        thread.start()
        yield str(path)
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_the_child_serves_a_connection_of_the_systemd_socket(unit: str) -> None:
    backend = SystemdSocket(unit)
    assert backend.complaints() == []

    result = sandbox.execute(SQUARE, backend=backend, rng=random.Random(1), limits=LIMITS)
    raised = sandbox.execute(Job("1 / 0", "f", ([1],)), backend=backend, rng=random.Random(1), limits=LIMITS)

    assert result == JobResult("returned", tuple(n * n for n in range(8)))
    assert raised == JobResult("exception")


def runs(program: bytes, *, arch: int, number: int, first: int = 0) -> int:
    """Return what a BPF filter decides about a system call, by interpreting the program."""
    steps = list(struct.iter_unpack("=HBBI", program))
    data = struct.pack("=IIQQ", number, arch, 0, first)
    at, accumulator = 0, 0
    while True:
        code, true, false, k = steps[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, k)
        elif code == 0x06:
            return k
        else:
            at += true if (accumulator == k if code == 0x15 else accumulator >= k) else false


@pytest.mark.parametrize(
    ("machine", "arch", "calls"),
    [
        ("x86_64", 0xC000003E, {"socket": 41, "ptrace": 101, "read": 0, "unshare": 272, "io_uring_setup": 425}),
        ("aarch64", 0xC00000B7, {"socket": 198, "ptrace": 117, "read": 63, "unshare": 97, "io_uring_setup": 425}),
    ],
)
def test_the_filter_refuses_what_it_says(machine: str, arch: int, calls: dict[str, int]) -> None:
    program = seccomp.program(machine)
    assert program is not None
    allow, refuse, kill = 0x7FFF0000, 0x00050001, 0x80000000

    assert runs(program, arch=arch, number=calls["read"]) == allow
    for name in ("ptrace", "unshare", "io_uring_setup"):
        assert runs(program, arch=arch, number=calls[name]) == refuse
    assert runs(program, arch=arch, number=calls["socket"], first=1) == refuse
    assert runs(program, arch=arch, number=calls["socket"], first=2) == allow
    assert runs(program, arch=arch, number=calls["read"] | 0x40000000) == refuse
    assert runs(program, arch=0x40000003, number=calls["read"]) == kill


def test_an_unknown_machine_has_no_filter() -> None:
    assert seccomp.program("pdp11") is None
    assert seccomp.program(platform.machine()) is not None


def test_bubblewrap_is_the_default_where_the_unit_has_no_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("canaryd.sandbox.backends.SOCKET", str(tmp_path / "none"))

    assert sandbox.default() == Bwrap()
