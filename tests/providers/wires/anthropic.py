"""The Messages event stream as a server writes it, for the anthropic provider."""

from __future__ import annotations

import json
from typing import Any

PROVIDER = "anthropic"


def arm(url: str) -> dict[str, Any]:
    return {"base_url": url, "params": {"max_tokens": 64}}


def events(*texts: str, stop_reason: str = "end_turn", usage: bool = True, model: str = "m-1-0513") -> list[Any]:
    """The events of a whole stream: a thinking block, which must not be graded, then a text block in pieces."""
    message = {"id": "reply-1", "type": "message", "role": "assistant", "model": model, "content": []}
    counts = {"input_tokens": 21, "cache_read_input_tokens": 10, "output_tokens": 1} if usage else None
    details = {"output_tokens": 12, "output_tokens_details": {"thinking_tokens": 4}} if usage else None
    thought = {"type": "thinking_delta", "thinking": "<answer>41</answer>"}
    pieces = [
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": text}} for text in texts
    ]
    return [
        {"type": "message_start", "message": {**message, "usage": counts}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": thought},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        *pieces,
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": details},
        {"type": "message_stop"},
    ]


def stream(*sent: Any) -> dict[str, Any]:
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in sent]
    return {"body": "".join(lines).encode(), "headers": {"content-type": "text/event-stream"}}


def good(*texts: str, **changes: Any) -> dict[str, Any]:
    return stream(*events(*(texts or ("<answer>", "42</answer>")), **changes))


def error(status: int, code: str, message: str = "no", **headers: str) -> dict[str, Any]:
    body = {"type": "error", "error": {"type": code, "message": message}, "request_id": "req-1"}
    return {"status": status, "body": json.dumps(body).encode(), "headers": headers}


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
CASES = {
    "good": good(),
    "no usage": good(usage=False),
    "echo": good(model="m-1"),
    "refusal": good("I cannot", stop_reason="refusal"),
    "prompt filtered": error(400, "invalid_request_error", "Output blocked by content filtering policy"),
    "truncated": good(stop_reason="max_tokens"),
    "eaten by reasoning": good("", stop_reason="max_tokens"),
    "empty": good(""),
    "malformed": good(stop_reason="tool_use"),
    "quota": error(400, "invalid_request_error", "Your credit balance is too low to go on."),
    "broken stream": stream(*events("<answer>42</answer>")[:-2]),
    "error inside 200": stream(*events("<answer>4", "2</answer>")[:-3], OVERLOADED),
    "auth": error(401, "authentication_error", "invalid x-api-key KEY"),
    "not found": error(404, "not_found_error", "model: m-1"),
    "bad request": error(400, "invalid_request_error", "max_tokens: too large"),
}
