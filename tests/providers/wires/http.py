"""An application of somebody's own, for the http provider."""

from __future__ import annotations

import json
from typing import Any

PROVIDER = "http"


def arm(url: str) -> dict[str, Any]:
    options = {
        "url": "/ask?v=2",
        "request": {"question": "{prompt}", "settings": {"system": "{system}", "depth": 3}},
        "output_path": "answers.0.text",
        "usage": {"input_tokens": "cost.in", "output_tokens": "cost.out"},
        "stop_path": "ended",
        "model_path": "by",
        "id_path": "id",
    }
    return {"base_url": url, "options": options}


def good(text: Any = "<answer>42</answer>", **changes: Any) -> dict[str, Any]:
    body = {
        "id": "reply-1",
        "by": "m-1-0513",
        "ended": "stop",
        "answers": [{"text": text}],
        "cost": {"in": 31, "out": 12},
    }
    return {"body": json.dumps({**body, **changes}).encode()}


def error(status: int, code: str, message: str = "no", **headers: str) -> dict[str, Any]:
    return {
        "status": status,
        "body": json.dumps({"error": {"code": code, "message": message}}).encode(),
        "headers": headers,
    }


CASES = {
    "good": good(),
    "no usage": good(cost=None),
    "echo": good(by="m-1"),
    "refusal": good("I cannot", ended="refusal"),
    "content filter": good("", ended="content_filter"),
    "truncated": good(ended="length"),
    "eaten by reasoning": good("", ended="length"),
    "empty": good(""),
    "malformed": good(42),
    "quota": error(402, "no_money"),
    "error inside 200": error(200, "overloaded_error"),
    "auth": error(401, "bad_key", "Unknown key KEY."),
    "not found": error(404, "nothing"),
    "bad request": error(422, "unknown_field"),
}
