"""A loopback server that speaks the OpenAI wire format and has simulated models on it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from canaryd.errors import UsageError
from canaryd.providers.simulated_model import SimulatedModel
from canaryd.records import Ask, Item, Reply

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_FINISH = {"stop": "stop", "length": "length", "refusal": "stop", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class ModelHost:
    """The models of the server by name, the items they know by prompt, and the calendar they live in."""

    models: Mapping[str, SimulatedModel]
    item_ids: Mapping[str, str]
    today: Callable[[], date]

    @classmethod
    def of(cls, models: Sequence[SimulatedModel], *, items: Sequence[Item], today: Callable[[], date]) -> ModelHost:
        """Return the host of some models that know the given items."""
        return cls({model.model: model for model in models}, {item.prompt: item.item_id for item in items}, today)

    def complete(self, request: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body of one chat completion request."""
        model = self.models.get(str(request.get("model")))
        if model is None:
            message = f"The model {request.get('model')!r} does not exist"
            return 404, {"error": {"message": message, "type": "invalid_request_error", "code": "model_not_found"}}
        first, last = (str(request["messages"][n]["content"]) for n in (0, -1))
        item_id = self.item_ids.get(last, "unknown")
        ask = Ask("", model.arm, self.today(), item_id, 0, system=first, prompt=last)
        return 200, _completion(model.answer(ask), model=model.model)


class ModelServer:
    """The server, in a thread of this process, so that it ends with it; use it as a context manager.

    Raises:
        UsageError: the port is taken.
    """

    def __init__(self, host: ModelHost, *, port: int) -> None:
        import uvicorn

        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError:
            self._socket.close()
            raise UsageError(f"port {port} of 127.0.0.1 is in use; choose a free one with --port") from None
        config = uvicorn.Config(
            _app(host), log_level="critical", access_log=False, lifespan="off", timeout_keep_alive=60
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that is free now."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _app(host: ModelHost) -> Starlette:
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    async def complete(request: Request) -> Response:
        status, body = host.complete(json.loads(await request.body()))
        return Response(json.dumps(body), status_code=status, media_type="application/json")

    return Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])


def _completion(reply: Reply, *, model: str) -> dict[str, Any]:
    return {
        "id": reply.response_id,
        "object": "chat.completion",
        "created": 0,
        "model": reply.resolved_model or model,
        "choices": [
            {
                "index": 0,
                "finish_reason": _FINISH[reply.stop],
                "message": {"role": "assistant", "content": reply.text, "refusal": None},
            }
        ],
        "usage": {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": (reply.input_tokens or 0) + (reply.output_tokens or 0),
        },
    }
