"""Responses as a server writes it, for the openai provider."""

from __future__ import annotations

import json
from typing import Any

PROVIDER = "openai"


def arm(url: str) -> dict[str, Any]:
    return {"base_url": f"{url}/v1", "options": {"api": "responses"}}


def good(*content: Any, **changes: Any) -> dict[str, Any]:
    """A whole reply, with reasoning that must not be graded; `changes` replace fields of the body."""
    parts = content or ({"type": "output_text", "text": "<answer>42</answer>", "annotations": []},)
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "<answer>41</answer>"}]}
    output = [thought, {"type": "message", "role": "assistant", "content": list(parts)}]
    usage = {"input_tokens": 31, "output_tokens": 12, "output_tokens_details": {"reasoning_tokens": 4}}
    body = {"id": "reply-1", "object": "response", "model": "m-1-0513", "status": "completed", "error": None}
    body |= {"incomplete_details": None, "output": output, "usage": usage}
    return {"body": json.dumps({**body, **changes}).encode()}


def cut(reason: str, **changes: Any) -> dict[str, Any]:
    return good(status="incomplete", incomplete_details={"reason": reason}, **changes)


def error(status: int, code: str, message: str = "no", **headers: str) -> dict[str, Any]:
    body = {"error": {"message": message, "type": code, "param": None, "code": code}}
    return {"status": status, "body": json.dumps(body).encode(), "headers": headers}


CASES = {
    "good": good(),
    "no usage": good(usage=None),
    "echo": good(model="m-1"),
    "refusal": good({"type": "refusal", "refusal": "I cannot help with that."}),
    "content filter": cut("content_filter"),
    "truncated": cut("max_output_tokens"),
    "eaten by reasoning": cut("max_output_tokens", output=[]),
    "empty": good({"type": "output_text", "text": ""}),
    "malformed": good(output=[{"type": "function_call", "name": "f", "arguments": "{}"}]),
    "quota": error(429, "insufficient_quota"),
    "error inside 200": good(status="failed", error={"code": "overloaded_error", "message": "no"}),
    "auth": error(401, "invalid_api_key", "Incorrect API key provided: KEY."),
    "not found": error(404, "model_not_found"),
    "bad request": error(400, "unsupported_parameter"),
}
