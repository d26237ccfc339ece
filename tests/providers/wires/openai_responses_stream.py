"""Responses as a server streams it, for the openai provider."""

from __future__ import annotations

import json
from typing import Any

PROVIDER = "openai"


def arm(url: str) -> dict[str, Any]:
    return {"base_url": f"{url}/v1", "options": {"api": "responses", "stream": True}}


def stream(*events: Any) -> dict[str, Any]:
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return {"body": "".join(lines).encode(), "headers": {"content-type": "text/event-stream"}}


def events(last: str = "completed", text: str = "<answer>42</answer>", **changes: Any) -> list[Any]:
    """The events of a whole stream; the last one holds the reply."""
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
    usage = {"input_tokens": 31, "output_tokens": 12, "output_tokens_details": {"reasoning_tokens": 4}}
    body = {"id": "reply-1", "model": "m-1-0513", "status": last, "error": None, "output": output, "usage": usage}
    return [
        {"type": "response.created", "response": {"id": "reply-1", "status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "delta": text},
        {"type": f"response.{last}", "response": {**body, **changes}},
    ]


def good(text: str = "<answer>42</answer>", **changes: Any) -> dict[str, Any]:
    return stream(*events(text=text, **changes))


def error(status: int, code: str, message: str = "no", **headers: str) -> dict[str, Any]:
    body = {"error": {"message": message, "type": code, "param": None, "code": code}}
    return {"status": status, "body": json.dumps(body).encode(), "headers": headers}


CASES = {
    "good": good(),
    "no usage": good(usage=None),
    "truncated": stream(*events("incomplete", incomplete_details={"reason": "max_output_tokens"})),
    "empty": good(""),
    "broken stream": stream(*events()[:-1]),
    "error inside 200": stream(*events()[:-1], {"type": "error", "code": "overloaded_error", "message": "no"}),
    "server error": stream(*events("failed", error={"code": "server_error", "message": "no"})),
}
