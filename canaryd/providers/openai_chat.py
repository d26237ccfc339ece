"""OpenAI's Chat Completions format: Ask -> body, body -> Reply (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from canaryd.errors import ConfigError
from canaryd.providers.base import ProviderError, bad_option, standing_of, text_option, with_extra_body
from canaryd.providers.wire import Redactor, at, broken_stream, failure_of_body, no_reply, text_at, tokens_at
from canaryd.records import Arm, Ask, JsonValue, Reply, StopKind

PATH = "/chat/completions"
CAP_PARAMETERS = ("max_tokens", "max_completion_tokens")
_FORMATS = ("json_mode", "response_format")
_STRUCTURAL = frozenset({"model", "messages", "stream", "n"})
_STOP: Mapping[Any, StopKind] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "refusal": "refusal",
}


def wire_fields(arm: Arm) -> dict[str, JsonValue]:
    """Return the request parameters that are set, under their wire names.

    Raises:
        ConfigError: options.cap_parameter is none of the two names, or two parameters say the same thing.
    """
    cap = text_option(arm, "cap_parameter", allowed=CAP_PARAMETERS) or "max_tokens"
    names = {"max_tokens": cap, "effort": "reasoning_effort"}
    fields = {names.get(name, name): value for name, value in arm.params.items() if name not in _FORMATS}
    if (shape := response_format(arm)) is not None:
        fields["response_format"] = shape
    if streamed(arm):
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    return with_extra_body(arm, fields, structural=_STRUCTURAL)


def streamed(arm: Arm) -> bool:
    """Return whether replies are asked for as an event stream.

    Raises:
        ConfigError: options.stream is neither true nor false.
    """
    stream = arm.options.get("stream", False)
    if not isinstance(stream, bool):
        raise bad_option(arm, "stream", why=f"is {stream!r}, but must be true or false")
    return stream


def response_format(arm: Arm) -> JsonValue:
    """Return the format that the reply is asked for, or None where none is set; json_mode is short for one.

    Raises:
        ConfigError: json_mode and response_format are both set.
    """
    if not arm.params.get("json_mode"):
        return arm.params.get("response_format")
    if "response_format" in arm.params:
        raise ConfigError(f"arm {arm.name!r}: json_mode and response_format say the same thing; keep one")
    return {"type": "json_object"}


def to_request(ask: Ask, *, model: str, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the body of one question; an empty system prompt sends no system message."""
    messages: list[JsonValue] = [{"role": "system", "content": ask.system}] if ask.system else []
    messages.append({"role": "user", "content": ask.prompt})
    return {"model": model, "messages": messages, **fields}


def from_response(body: Any, *, model: str, redactor: Redactor) -> Reply:
    """Return the reply that a body with status 200 holds.

    Raises:
        ProviderError: the body holds an error instead, no message that a model has ended (`server_error`), or nothing
            that could be graded (`malformed`).
    """
    if error := failure_of_body(body, redactor=redactor):
        raise error
    if not isinstance(at(body, "choices"), list):
        raise no_reply("choices")
    message, reason = at(body, "choices", 0, "message"), at(body, "choices", 0, "finish_reason")
    refusal, resolved = text_at(message, "refusal"), text_at(body, "model")
    text = _text_of(at(message, "content"))
    stop = "refusal" if refusal and reason else _STOP.get(reason if isinstance(reason, str) else None)
    input_tokens = tokens_at(body, "usage", "prompt_tokens")
    output_tokens = tokens_at(body, "usage", "completion_tokens") or None  # 0 beside a text: nothing was counted
    if stop is None or not isinstance(message, dict):
        raise ProviderError(
            "malformed" if isinstance(message, dict) and reason and reason != "error" else "server_error",
            redactor(f"no message with a known finish_reason, but {reason!r}"),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        )
    return Reply(
        text=refusal or text,
        stop=stop,
        resolved_model=resolved,
        response_id=text_at(body, "id"),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning_tokens=tokens_at(body, "usage", "completion_tokens_details", "reasoning_tokens"),
        standing=standing_of(model, resolved),
        system_fingerprint=text_at(body, "system_fingerprint"),
    )


def body_of_stream(events: Sequence[Any]) -> Any:
    """Return the body that the same reply would have had without a stream: the deltas of its one choice, joined.

    Raises:
        ProviderError: the stream stops before its `[DONE]`, unless an event is an error (which is then the body).
    """
    for event in events:
        if at(event, "error"):
            return event
    if "[DONE]" not in events:
        raise broken_stream()
    body: dict[str, Any] = {}
    message: dict[str, Any] = {}
    choice: dict[str, Any] = {"message": message}
    for event in events:
        body |= {
            key: value
            for key in ("id", "model", "usage", "system_fingerprint")
            if (value := at(event, key)) is not None
        }
        for key in ("content", "refusal"):
            if piece := text_at(event, "choices", 0, "delta", key):
                message[key] = message.get(key, "") + piece
        choice["finish_reason"] = text_at(event, "choices", 0, "finish_reason") or choice.get("finish_reason")
    return {**body, "choices": [choice]} if any(at(event, "choices") for event in events) else body


def _text_of(content: Any) -> str:
    """Return the text of a message's content, which is a text or (some servers) a list of typed parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(text_at(part, "text") or "" for part in parts if at(part, "type") == "text")
