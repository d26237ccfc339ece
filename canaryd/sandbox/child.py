"""What runs inside the sandbox: it runs a candidate in a worker process and says how that ended.

The bare interpreter of the sandbox runs this file alone, so it imports only the standard library. It reads one frame
from standard input (a length of 4 bytes, big-endian, and JSON: the candidate's code, the function to call, the inputs,
limits, a nonce) and writes two to standard output: that it is ready, and the outcome, each with the nonce. The
candidate gets neither descriptor.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import struct
import time
from typing import Any

#: A candidate that prints or returns more than this ends as `output_limit`.
OUTPUT_BYTES = 64 * 1024
RESULTS = 3
PR_SET_DUMPABLE = 4


def read_exactly(descriptor: int, count: int) -> bytes:
    """Return `count` bytes of a descriptor; fewer only where it ends."""
    data = b""
    while len(data) < count:
        part = os.read(descriptor, count - len(data))
        if not part:
            break
        data += part
    return data


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to a descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def send(message: dict[str, Any]) -> None:
    """Write one frame to standard output."""
    data = json.dumps(message).encode()
    write_all(1, struct.pack(">I", len(data)) + data)


def confine(limits: dict[str, int]) -> None:
    """Set the limits of this process and its children; they cannot be raised again."""
    cpu = limits["cpu_s"]
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, limits["memory_bytes"], limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"], limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, 64, 64),
        (resource.RLIMIT_NPROC, limits["processes"], limits["processes"]),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
    ):
        resource.setrlimit(kind, (soft, hard))


def candidate_answer(request: dict[str, Any]) -> bytes:
    """Return, as JSON, what the candidate returned for each input or how it failed. Nothing it did here is trusted."""
    try:
        space: dict[str, Any] = {"__name__": "candidate"}
        exec(compile(request["code"], "candidate", "exec"), space)  # noqa: S102 - what a sandbox is for
        outputs = [space[request["entry"]](*arguments) for arguments in request["inputs"]]
        return json.dumps({"outcome": "returned", "outputs": outputs}, allow_nan=False).encode()
    except MemoryError:
        return b'{"outcome": "memory"}'
    except BaseException:  # noqa: BLE001 - a candidate may raise anything, SystemExit too; each is its own failure
        return b'{"outcome": "exception"}'


def work(request: dict[str, Any], *, noise: int, results: int) -> None:
    """Run the candidate in this process, never to return; what it prints goes to `noise`, its answer to `results`."""
    own = os.getpid()
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, noise), (2, noise), (RESULTS, results)):
        os.dup2(source, target)
    os.closerange(RESULTS + 1, 1024)
    confine(request["limits"])
    answer = candidate_answer(request)
    if os.getpid() == own:  # a process that the candidate forked comes by here too
        write_all(RESULTS, answer[: OUTPUT_BYTES + 1])
    os._exit(0)


def watch(worker: int, *, noise: int, results: int, limits: dict[str, int]) -> dict[str, Any]:
    """Return how a worker ended: it is read from until it exits, writes too much, or its time is over."""
    deadline = time.monotonic() + limits["wall_s"]
    exited = os.pidfd_open(worker)
    received = {noise: b"", results: b""}
    open_pipes = set(received)
    while True:
        left = deadline - time.monotonic()
        ready = select.select([exited, *open_pipes], [], [], left)[0] if left > 0 else []
        if not ready:
            return {"outcome": "timeout"}
        for pipe in open_pipes.intersection(ready):
            part = os.read(pipe, OUTPUT_BYTES)
            received[pipe] += part
            if len(received[pipe]) > OUTPUT_BYTES:
                return {"outcome": "output_limit"}
            if not part:
                open_pipes.discard(pipe)
        if ready == [exited]:
            return verdict(worker, received[results], cpu_s=limits["cpu_s"])


def verdict(worker: int, answer: bytes, *, cpu_s: int) -> dict[str, Any]:
    """Return the outcome of a worker that has exited, from its answer or from what killed it."""
    _, status, usage = os.wait4(worker, 0)
    if os.WIFSIGNALED(status):
        killer = os.WTERMSIG(status)
        spent_s = usage.ru_utime + usage.ru_stime
        late = killer == signal.SIGXCPU or (killer == signal.SIGKILL and spent_s >= cpu_s)
        return {"outcome": "timeout" if late else "exception"}
    try:
        said = json.loads(answer)
        return {"outcome": said["outcome"], "outputs": said.get("outputs", [])}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {"outcome": "protocol_error"}


def main() -> None:
    """Serve one request."""
    size = struct.unpack(">I", read_exactly(0, 4))[0]
    request = json.loads(read_exactly(0, size))
    nonce = request.pop("nonce")
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # closes /proc/<this process>/fd and mem to the candidate
    send({"nonce": nonce, "ready": True})
    noise, results = os.pipe(), os.pipe()
    worker = os.fork()
    if worker == 0:
        work(request, noise=noise[1], results=results[1])
    os.close(noise[1])
    os.close(results[1])
    outcome = watch(worker, noise=noise[0], results=results[0], limits=request["limits"])
    send({"nonce": nonce, **outcome})
    os._exit(0)


if __name__ == "__main__":
    main()
