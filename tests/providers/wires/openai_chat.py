"""Chat Completions as a server writes it, for the openai provider."""

from __future__ import annotations

import json
from typing import Any

PROVIDER = "openai"


def arm(url: str) -> dict[str, Any]:
    return {"base_url": f"{url}/v1"}


def good(**changes: Any) -> dict[str, Any]:
    """A whole reply; `changes` replace fields of the message, the choice or the body."""
    message = {"role": "assistant", "content": "<answer>42</answer>", "refusal": None}
    choice = {"index": 0, "finish_reason": "stop", "logprobs": None}
    usage = {"prompt_tokens": 31, "completion_tokens": 12, "completion_tokens_details": {"reasoning_tokens": 4}}
    body = {"id": "reply-1", "object": "chat.completion", "created": 1, "model": "m-1-0513", "usage": usage}
    for part in (message, choice, body):
        part.update({key: changes.pop(key) for key in list(changes) if key in part})
    assert not changes
    return {"body": json.dumps({**body, "choices": [{**choice, "message": message}]}).encode()}


def error(status: int, code: str, message: str = "no", **headers: str) -> dict[str, Any]:
    body = {"error": {"message": message, "type": code, "param": None, "code": code}}
    return {"status": status, "body": json.dumps(body).encode(), "headers": headers}


CASES = {
    "good": good(),
    "no usage": good(usage=None),
    "echo": good(model="m-1"),
    "refusal": good(content=None, refusal="I cannot help with that."),
    "content filter": good(content="", finish_reason="content_filter"),
    "prompt filtered": error(400, "content_filter"),
    "truncated": good(finish_reason="length"),
    "eaten by reasoning": good(content="", finish_reason="length"),
    "empty": good(content=""),
    "malformed": good(content=None, finish_reason="tool_calls"),
    "quota": error(429, "insufficient_quota"),
    "error inside 200": error(200, "overloaded_error"),
    "auth": error(401, "invalid_api_key", "Incorrect API key provided: KEY."),
    "not found": error(404, "model_not_found"),
    "bad request": error(400, "unsupported_parameter"),
}
