"""Judges that are not there: a loopback server in OpenAI's wire format, for the example, tests and dry runs."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from canaryd.duel.model import Question
from canaryd.errors import UsageError

_PROMPT = re.compile(
    r"<query>\n(?P<query>.*?)\n</query>\n\n<context_first>\n(?P<first>.*)\n</context_first>\n\n"
    r"<context_second>\n(?P<second>.*)\n</context_second>",
    re.DOTALL,
)
_RANK = {"hallucinated": 0, "incorrect": 1, "abstained": 2, "partial": 3, "correct": 4}


@dataclass(frozen=True, slots=True)
class SimulatedJudge:
    """One judge: how often it takes the first position whatever stands there, and how often it rambles.

    Otherwise the context with the better label wins: correct where it holds the expected document's id, partial where
    it holds another section of the same page.
    """

    model: str
    seed: int = 1
    first_bias: float = 0.0
    rambling: float = 0.0

    def answer(self, prompt: str, documents: Mapping[str, str]) -> str:
        """Return the text of the judge's answer; `documents` are the expected ids by query."""
        asked = _PROMPT.search(prompt)
        if asked is None or self._draw("ramble", prompt) < self.rambling:
            return "Both are fine, although I would rather not say."
        expected = documents.get(asked["query"], "")
        first, second = (label_of(asked[side], expected) for side in ("first", "second"))
        ahead = _RANK[first] - _RANK[second]
        winner = "first" if ahead > 0 else "second" if ahead < 0 else "tie"
        if self._draw("bias", prompt) < self.first_bias:
            winner = "first"
        return json.dumps(
            {"label_first": first, "label_second": second, "winner": winner, "rationale": f"{first} against {second}"}
        )

    def _draw(self, what: str, prompt: str) -> float:
        key = f"{self.seed}|{self.model}|{what}|{prompt}".encode()
        return int.from_bytes(hashlib.sha256(key).digest()[:6]) / 2**48


def label_of(context: str, expected: str) -> str:
    """Return the label of a context for the expected document.

    >>> label_of("[a.md#x] text", "a.md#x"), label_of("[a.md#y] text", "a.md#x"), label_of("", "a.md#x")
    ('correct', 'partial', 'abstained')
    """
    if not context.strip():
        return "abstained"
    if expected and f"[{expected}]" in context:
        return "correct"
    page = expected.partition("#")[0]
    return "partial" if page and f"[{page}#" in context else "incorrect"


class JudgeServer:
    """The judges on 127.0.0.1, in threads of this process; use it as a context manager. `calls` counts the requests.

    Raises:
        UsageError: the port is taken.
    """

    def __init__(self, judges: Sequence[SimulatedJudge], *, questions: Sequence[Question], port: int) -> None:
        known = {judge.model: judge for judge in judges}
        documents = {one.query: one.expected_doc_id for one in questions if one.expected_doc_id}
        self.calls = 0
        counting, server = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                with counting:
                    server.calls += 1
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, answer = _complete(body, known, documents=documents)
                sent = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError:
            raise UsageError(f"port {port} of 127.0.0.1 is in use; choose a free one with --port") from None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> JudgeServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(timeout=10)
        self._server.server_close()


def _complete(
    body: Mapping[str, Any], judges: Mapping[str, SimulatedJudge], *, documents: Mapping[str, str]
) -> tuple[int, dict[str, Any]]:
    judge = judges.get(str(body.get("model")))
    if judge is None:
        return 404, {"error": {"message": f"there is no model {body.get('model')!r}", "code": "model_not_found"}}
    prompt = str(body["messages"][-1]["content"])
    text = judge.answer(prompt, documents)
    tokens = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
    return 200, {
        "id": "simulated",
        "object": "chat.completion",
        "created": 0,
        "model": f"{judge.model}-{judge.seed}",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {**tokens, "total_tokens": sum(tokens.values())},
    }
