"""Converse as a server writes it, for the bedrock provider."""

from __future__ import annotations

import json
from typing import Any

PROVIDER = "bedrock"
SECRET = "AKIAPLANTED000000000:sk-planted-0123456789abcdef"


def arm(url: str) -> dict[str, Any]:
    return {"base_url": url, "options": {"region": "eu-west-1"}}


def good(text: str = "<answer>42</answer>", **changes: Any) -> dict[str, Any]:
    """A whole result, with reasoning that must not be graded; `changes` replace fields of the body."""
    thought = {"reasoningContent": {"reasoningText": {"text": "<answer>41</answer>"}}}
    message = {"role": "assistant", "content": [thought, {"text": text}]}
    usage = {"inputTokens": 21, "cacheReadInputTokens": 10, "outputTokens": 12, "totalTokens": 43}
    body = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 3}}
    kept = {name: value for name, value in {**body, **changes}.items() if value is not None}
    return {"body": json.dumps(kept).encode(), "headers": {"x-amzn-requestid": "reply-1"}}


def error(status: int, code: str, message: str = "no", **headers: str) -> dict[str, Any]:
    names = {429: "ThrottlingException", 503: "ServiceUnavailableException", 500: "InternalServerException"}
    sent = {"x-amzn-errortype": names.get(status, code), **headers}
    return {"status": status, "body": json.dumps({"message": message}).encode(), "headers": sent}


CASES = {
    "good": good(),
    "no usage": good(usage=None),
    "refusal": good("I cannot", stopReason="refusal"),
    "content filter": good("", stopReason="guardrail_intervened"),
    "truncated": good(stopReason="max_tokens"),
    "eaten by reasoning": good("", stopReason="max_tokens"),
    "empty": good(""),
    "malformed": good(stopReason="tool_use"),
    "quota": error(400, "ServiceQuotaExceededException"),
    "auth": error(403, "UnrecognizedClientException", "The security token KEY is invalid."),
    "not found": error(404, "ResourceNotFoundException"),
    "bad request": error(400, "ValidationException"),
}
