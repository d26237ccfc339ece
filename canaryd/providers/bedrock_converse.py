"""Bedrock's Converse format: Ask -> body, what botocore brings -> Reply (pure)."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from canaryd.providers.base import ProviderError, with_extra_body
from canaryd.providers.wire import Redactor, at, error_of, kind_of_status, reply_json, retry_after_s, text_at, tokens_at
from canaryd.records import Arm, Ask, JsonValue, Reply, StopKind

_WIRE_NAMES = {"max_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP"}
_STOP: Mapping[Any, StopKind] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
}
#: Where a service's error name says more than its status.
_KIND_OF_NAME = {
    "ExpiredTokenException": "auth",
    "InvalidSignatureException": "auth",
    "ModelErrorException": "server_error",
    "ModelNotReadyException": "overloaded",
    "ServiceQuotaExceededException": "quota",
    "UnrecognizedClientException": "auth",
}
#: Where `keep_body` puts the body of a reply.
BODY = "Body"


def wire_fields(arm: Arm) -> dict[str, JsonValue]:
    """Return the request parameters that are set, under their wire names; extra_body goes to the model as it stands.

    Raises:
        ConfigError: extra_body is no table.
    """
    config: dict[str, JsonValue] = {_WIRE_NAMES[name]: value for name, value in arm.params.items()}
    extra = with_extra_body(arm, {}, structural=())
    parts: dict[str, JsonValue] = {"inferenceConfig": config, "additionalModelRequestFields": extra}
    return {name: part for name, part in parts.items() if part}


def to_request(ask: Ask, *, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the body of one question; an empty system prompt is not sent."""
    system: dict[str, JsonValue] = {"system": [{"text": ask.system}]} if ask.system else {}
    return {"messages": [{"role": "user", "content": [{"text": ask.prompt}]}], **system, **fields}


def keep_body(
    response_dict: MutableMapping[str, Any], customized_response_dict: MutableMapping[str, Any], **_: Any
) -> None:
    """Keep a reply's body as it came and give botocore an empty one: its parser breaks on what is of another shape.

    It is botocore's hook `before-parse`, which names the arguments.
    """
    customized_response_dict[BODY] = response_dict["body"]
    response_dict["body"] = b"{}"


def from_response(response: Any, *, redactor: Redactor) -> Reply:
    """Return the reply of a Converse result; reasoning is no text, and no result names the model that answered.

    Raises:
        ProviderError: the body is no result (`server_error`), or one that could not be graded (`malformed`).
    """
    body = reply_json(response[BODY])
    content = at(body, "output", "message", "content")
    reason = text_at(body, "stopReason")
    usage = at(body, "usage")
    counts = [tokens_at(usage, name) for name in ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")]
    input_tokens = None if counts[0] is None else sum(count or 0 for count in counts)
    output_tokens = tokens_at(usage, "outputTokens") or None
    if reason not in _STOP or not isinstance(content, list):
        raise ProviderError(
            "malformed" if reason and isinstance(content, list) else "server_error",
            redactor(f"no message with a known stop reason, but {reason!r}"),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        )
    return Reply(
        text="".join(text_at(block, "text") or "" for block in content),
        stop=_STOP[reason],
        response_id=text_at(response, "ResponseMetadata", "RequestId"),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def failure_of_client_error(response: Any, *, redactor: Redactor) -> ProviderError:
    """Return the error of a reply whose status is no success, as botocore holds it.

    One that came to AWS's own chain while it fetched keys has no body of ours, but botocore's reading of it.
    """
    status, headers = (at(response, "ResponseMetadata", name) for name in ("HTTPStatusCode", "HTTPHeaders"))
    names, message = error_of(at(response, BODY) or b"")
    name = text_at(response, "Error", "Code") or ""
    if not name or name == str(status):  # no header names the error
        name = names[0] if names else ""
    kind = _KIND_OF_NAME.get(name) or kind_of_status(status if isinstance(status, int) else None)
    said = message or text_at(response, "Error", "Message") or ""
    detail = f"HTTP {status} {name}".rstrip() + (f": {said}" if said else "")
    return ProviderError(kind, redactor(detail), retry_after_s=retry_after_s(headers or {}))
