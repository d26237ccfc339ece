"""What tests of real daemons share: waiting, a free port, a panel of sums, a service manager, a model that waits."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_UNIX, SHUT_RD, SOCK_DGRAM, socket
from typing import Any

PATIENCE_S = 90.0


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Poll until a condition holds and return what it gave; nothing is asserted about how long it takes."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {PATIENCE_S:.0f} s")


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with closing(socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def write_sums(folder: Path, count: int, *, in_cluster: int = 1) -> None:
    """Write the panel `small` with that many sums, so many of them in a cluster; it is not frozen."""
    header = {"name": "small", "version": "1", "licence": "CC0-1.0", "canary": "00000000-0000-4000-8000-000000000000"}
    items = [
        {
            "id": f"sum-{n}",
            "family": "sums",
            "cluster": f"sum-{n // in_cluster}",
            "prompt": f"What is {n} + {7 * n}? Answer with the integer only.",
            "target": str(8 * n),
            "grader": {"type": "number"},
        }
        for n in range(1, count + 1)
    ]
    (folder / "small.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (header, *items)))
    (folder / "small.system.txt").write_text("Answer between <answer> and </answer>.\n")


class Manager:
    """The socket of a service manager, and what it was told."""

    def __init__(self, path: Path) -> None:
        self.path, self.told = path, list[str]()
        self.socket = socket(AF_UNIX, SOCK_DGRAM)
        self.socket.bind(str(path))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while message := self.socket.recv(4096):
            self.told.append(message.decode())

    def since(self, count: int, *, expected: list[str]) -> bool:
        """Return whether these came in this order, others between them, after so many."""
        came = iter(self.told[count:])
        return all(each in came for each in expected)

    def close(self) -> None:
        """Stop listening."""
        self.socket.shutdown(SHUT_RD)
        self.socket.close()


class SlowModel:
    """An OpenAI-compatible endpoint that answers the first questions at once and holds later ones until it is told.

    `held` is how many of the later ones are held; all of them where it is None.
    """

    def __init__(self, *, at_once: int, held: int | None = None) -> None:
        self.arrived = self.answered = 0
        self.release = threading.Event()
        counting, model = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                with counting:
                    model.arrived += 1
                    number = model.arrived
                if at_once < number and (held is None or number <= at_once + held):
                    model.release.wait(PATIENCE_S)
                body = json.dumps(_completion(number)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                with counting:
                    model.answered += 1

            def log_message(self, *_: Any) -> None:
                """Stay quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def base_url(self) -> str:
        """Where the SDK finds it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        """Let go of what is held and stop serving."""
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


def _completion(number: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": "<answer>8</answer>"}
    return {
        "id": f"reply-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": "large",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    }
