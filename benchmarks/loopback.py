"""A model server in a process of its own on 127.0.0.1, as cheap as one can be: `ANSWERS.json LATENCY_S`.

It speaks the Chat Completions format and gives the answer to each prompt in the file after the latency; to any other
prompt the answer is ok.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class Answering(asyncio.Protocol):
    """One kept-alive connection; a client sends its next request after the answer to the last one."""

    def __init__(self, answers: Mapping[str, str], latency_s: float) -> None:
        self._answers, self._latency_s = answers, latency_s
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer once the request is whole."""
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        self._received = b""
        asyncio.get_running_loop().call_later(self._latency_s, self._answer, json.loads(body))

    def _answer(self, request: dict) -> None:
        body = json.dumps(_completion(self._text(request), request["model"])).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        if not self._transport.is_closing():
            self._transport.write(head.encode() + body)

    def _text(self, request: dict) -> str:
        return self._answers.get(request["messages"][-1]["content"], "<answer>ok</answer>")


def _completion(text: str, model: str) -> dict:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 100, "total_tokens": 200},
    }


@contextmanager
def serving(answers: Path, *, latency_s: float) -> Iterator[str]:
    """Yield the base URL of a server that runs until the block ends."""
    command = [sys.executable, str(Path(__file__).resolve()), str(answers), str(latency_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.terminate()


async def serve(answers: Mapping[str, str], latency_s: float) -> None:
    """Print the port and serve until the process is stopped."""
    server = await asyncio.get_running_loop().create_server(lambda: Answering(answers, latency_s), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text()), float(sys.argv[2])))
