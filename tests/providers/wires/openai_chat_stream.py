"""Chat Completions as a server streams it, for the openai provider."""

from __future__ import annotations

import json
from typing import Any

PROVIDER = "openai"


def arm(url: str) -> dict[str, Any]:
    return {"base_url": f"{url}/v1", "options": {"stream": True}}


def stream(*events: Any) -> dict[str, Any]:
    lines = [f"data: {event if isinstance(event, str) else json.dumps(event)}\r\n\r\n" for event in events]
    return {"body": "".join(lines).encode(), "headers": {"content-type": "text/event-stream"}}


def chunks(*deltas: Any, finish_reason: str = "stop", usage: bool = True, model: str = "m-1-0513") -> list[Any]:
    """The chunks of a whole stream, with the usage in one of its own behind them."""
    head = {"id": "reply-1", "object": "chat.completion.chunk", "model": model, "usage": None}
    sent = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    sent += [{**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]}]
    counts = {"prompt_tokens": 31, "completion_tokens": 12, "completion_tokens_details": {"reasoning_tokens": 4}}
    return [*sent, *([{**head, "choices": [], "usage": counts}] if usage else []), "[DONE]"]


def good(*texts: str, **changes: Any) -> dict[str, Any]:
    deltas = [
        {"role": "assistant", "content": ""},
        *({"content": text} for text in texts or ("<answer>4", "2</answer>")),
    ]
    return stream(*chunks(*deltas, **changes))


def error(status: int, code: str, message: str = "no", **headers: str) -> dict[str, Any]:
    body = {"error": {"message": message, "type": code, "param": None, "code": code}}
    return {"status": status, "body": json.dumps(body).encode(), "headers": headers}


OVERLOADED = {"error": {"message": "no", "code": "overloaded_error"}}
CASES = {
    "good": good(),
    "no usage": good(usage=False),
    "echo": good(model="m-1"),
    "refusal": stream(*chunks({"refusal": "I cannot"}, {"refusal": " help with that."})),
    "content filter": good("half", finish_reason="content_filter"),
    "truncated": good("half", finish_reason="length"),
    "eaten by reasoning": good("", finish_reason="length"),
    "empty": good(""),
    "malformed": good(finish_reason="tool_calls"),
    "quota": error(429, "insufficient_quota"),
    "broken stream": stream(*chunks({"content": "<answer>42</answer>"})[:-1]),
    "error inside 200": stream({"choices": [{"delta": {"content": "<answer>4"}}]}, OVERLOADED),
    "auth": error(401, "invalid_api_key", "Incorrect API key provided: KEY."),
    "not found": error(404, "model_not_found"),
    "bad request": error(400, "unsupported_parameter"),
}
