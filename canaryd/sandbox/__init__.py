"""Runs a grader's job, an untrusted program, confined; says how it ended, and never whether it was right.

What the program should return stays outside. Whatever the program does ends as an outcome of `JobResult`; a fault of
the sandbox itself, which the program cannot bring about, is a `SandboxError` and measures nothing.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import cast, get_args

from canaryd import hashing
from canaryd.errors import MeasurementRefused
from canaryd.graders import jsontext
from canaryd.graders.base import Job, JobOutcome, JobResult
from canaryd.records import JsonValue
from canaryd.sandbox.backends import Backend, Bwrap, SystemdSocket, Transcript, child_source, default

__all__ = [
    "Backend",
    "Bwrap",
    "Limits",
    "SandboxError",
    "SandboxUnavailable",
    "SystemdSocket",
    "components",
    "default",
    "execute",
    "probe",
]

_OUTCOMES = frozenset(get_args(JobOutcome)) - {"differs"}
#: The child ends a candidate by itself; this much longer is waited before the child counts as stopped by it.
_GRACE_S = 4.0


class SandboxError(Exception):
    """The sandbox could not run the program: the sample is a failure `sandbox_error`, never a wrong answer."""


class SandboxUnavailable(MeasurementRefused):
    """No program can be run confined on this host: `problem` says why, `cure` what to do."""

    def __init__(self, why: str, *, cure: str) -> None:
        self.problem = f"the sandbox for code items does not work: {why}"
        self.cure = f"{cure}, or measure a panel without code items"
        super().__init__(f"{self.problem}; {self.cure}", reason="sandbox_unavailable")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one candidate may use. The CPU limit decides; the wall clock is for those that wait, and generous."""

    cpu_s: int = 5
    wall_s: int = 8
    memory_bytes: int = 512 * 1024 * 1024
    file_bytes: int = 16 * 1024 * 1024
    processes: int = 64


def execute(job: Job, *, backend: Backend, rng: random.Random, limits: Limits | None = None) -> JobResult:
    """Return how a job ended; it is run twice, and `differs` says that the runs did not agree.

    Each run has its own sandbox, nonce and order of inputs, drawn from `rng` (in service `random.SystemRandom()`).

    Raises:
        SandboxError: the sandbox did not work.
    """
    bounds = limits or Limits()
    first = _run(job, backend=backend, rng=rng, limits=bounds)
    if first.outcome not in ("returned", "exception"):
        return first
    second = _run(job, backend=backend, rng=rng, limits=bounds)
    same = first.outcome == second.outcome and jsontext.form(list(first.outputs)) == jsontext.form(list(second.outputs))
    return first if same else JobResult("differs")


def _run(job: Job, *, backend: Backend, rng: random.Random, limits: Limits) -> JobResult:
    """Return how one run of a job ended."""
    order = list(range(len(job.inputs)))
    rng.shuffle(order)
    nonce = f"{rng.getrandbits(128):032x}"
    request = {
        "nonce": nonce,
        "code": job.code,
        "entry": job.entry,
        "inputs": [job.inputs[index] for index in order],
        "limits": asdict(limits),
    }
    body = json.dumps(request).encode()
    try:
        transcript = backend.exchange(struct.pack(">I", len(body)) + body, wall_s=limits.wall_s + _GRACE_S)
    except OSError as error:
        raise SandboxError(f"it cannot be reached ({error})") from None
    return _result(transcript, nonce=nonce, order=order)


def _result(transcript: Transcript, *, nonce: str, order: list[int]) -> JobResult:
    """Return what a transcript says, believing only what cannot be of advantage to a candidate."""
    frames = _frames(transcript.data)
    if not frames or frames[0] != {"nonce": nonce, "ready": True}:
        raise SandboxError(f"it did not start ({transcript.diagnostics or transcript.ended})")
    if transcript.ended != "closed":
        return JobResult("timeout" if transcript.ended == "deadline" else "output_limit")
    said = frames[1] if len(frames) == 2 else {}
    outcome, outputs = str(said.get("outcome")), said.get("outputs", [])
    if said.get("nonce") != nonce or outcome not in _OUTCOMES:
        return JobResult("protocol_error")
    if outcome != "returned":
        return JobResult(cast("JobOutcome", outcome))
    if not isinstance(outputs, list) or len(outputs) != len(order):
        return JobResult("protocol_error")
    by_input = dict(zip(order, outputs, strict=True))
    return JobResult("returned", tuple(by_input[index] for index in sorted(by_input)))


def _frames(data: bytes) -> list[dict[str, JsonValue]]:
    """Return the frames that stand in the bytes up to the first that is damaged, which counts as an empty one."""
    frames: list[dict[str, JsonValue]] = []
    while data:
        size = int.from_bytes(data[:4], "big")
        body, data = data[4 : 4 + size], data[4 + size :]
        try:
            frame = jsontext.read(body.decode())
        except ValueError:
            frame = None
        if not isinstance(frame, dict) or len(body) < size:
            return [*frames, {}]
        frames.append(frame)
    return frames


_PROBE = Job(
    code=(
        "import os, sys, pkgutil\n"
        "def look(what):\n"
        "    if what == 'cost': return sum(i * i for i in range(1_000_000))\n"
        "    if what == 'environment': return sorted(os.environ)\n"
        "    if what == 'files':\n"
        "        return sorted(top for top in os.listdir('/') if any(files for _, _, files in os.walk('/' + top)))\n"
        "    return [sys.version, sorted(module.name for module in pkgutil.iter_modules())]\n"
    ),
    entry="look",
    inputs=(["cost"], ["environment"], ["files"], ["interpreter"]),
)
#: n(n + 1)(2n + 1)/6, which every process that imports this would otherwise have to add up.
_COST = 999_999 * 1_000_000 * 1_999_999 // 6
_SEEN = {"HOME", "LC_CTYPE", "PATH", "PWD", "PYTHONHASHSEED", "PYTHONSAFEPATH", "TMPDIR"}
#: Directories of a host that hold what no candidate may read; in a sandbox they are absent or without a file.
_HIDDEN = frozenset(("boot", "etc", "home", "media", "mnt", "opt", "root", "run", "srv", "var"))


def probe(*, backend: Backend, rng: random.Random) -> JobResult:
    """Return the result of a program of known cost that looks around, after checking that it saw nothing it must not.

    Raises:
        SandboxUnavailable: items of code cannot be graded here, so nothing is measured.
    """
    if found := backend.complaints():
        raise SandboxUnavailable(", ".join(found), cure=backend.cure())
    try:
        result = execute(_PROBE, backend=backend, rng=rng)
    except SandboxError as error:
        raise SandboxUnavailable(str(error), cure=backend.cure()) from None
    if (wrong := _wrong_with(result)) is not None:
        raise SandboxUnavailable(wrong, cure=backend.cure())
    return result


def _wrong_with(result: JobResult) -> str | None:
    """Return why the sandbox of a probe cannot be trusted, None where it can."""
    if result.outcome != "returned":
        return f"a harmless program of known cost ended as {result.outcome}"
    cost, environment, root, _ = result.outputs
    if cost != _COST or not isinstance(environment, list) or not isinstance(root, list):
        return "a program of known result returned another one"
    seen = sorted(set(map(str, environment)) - _SEEN) + sorted(_HIDDEN.intersection(map(str, root)))
    return f"a program inside can see {', '.join(seen)}" if seen else None


def components(result: JobResult, *, backend: Backend, limits: Limits | None = None) -> Mapping[str, str]:
    """Return what of the sandbox belongs in the harness fingerprint, by name; `result` is that of `probe`."""
    interpreter = hashing.digest(jsontext.form(result.outputs[-1]).encode())
    version = result.outputs[-1][0] if isinstance(result.outputs[-1], list) else ""
    return {
        **backend.tools(),
        "interpreter": f"{version} ({interpreter})",
        "limits": hashing.canonical_json(asdict(limits or Limits())).decode(),
        "child": hashing.digest(child_source().encode()),
    }
