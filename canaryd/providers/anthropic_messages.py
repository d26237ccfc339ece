"""Anthropic's Messages format, streamed: Ask -> body, events -> Reply (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from canaryd.errors import ConfigError
from canaryd.providers.base import ProviderError, bad_option, standing_of, with_extra_body
from canaryd.providers.wire import Redactor, at, broken_stream, failure_of_body, text_at, tokens_at
from canaryd.records import Arm, Ask, JsonValue, Reply, StopKind

PATH = "/v1/messages"
_STRUCTURAL = frozenset({"model", "messages", "system", "stream"})
#: What each stop reason that ends an answer means.
STOP: Mapping[str | None, StopKind] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def wire_fields(arm: Arm) -> dict[str, JsonValue]:
    """Return the request parameters that are set, under their wire names.

    Raises:
        ConfigError: max_tokens is missing (the API asks for it), or options.thinking is no table.
    """
    fields = dict(arm.params)
    if "max_tokens" not in fields:
        raise ConfigError(f"arm {arm.name!r}: the Messages API asks for a limit on output; set params.max_tokens")
    if "effort" in fields:
        fields["output_config"] = {"effort": fields.pop("effort")}
    if "thinking" in arm.options:
        fields["thinking"] = arm.options["thinking"]
        if not isinstance(fields["thinking"], dict):
            raise bad_option(arm, "thinking", why='must be a table, such as {type = "adaptive"}')
    return with_extra_body(arm, fields, structural=_STRUCTURAL)


def to_request(ask: Ask, *, model: str, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the body of one question; an empty system prompt is not sent."""
    system: dict[str, JsonValue] = {"system": ask.system} if ask.system else {}
    messages: list[JsonValue] = [{"role": "user", "content": ask.prompt}]
    return {"model": model, **system, "messages": messages, "stream": True, **fields}


def from_events(events: Iterable[Any], *, model: str, redactor: Redactor) -> Reply:
    """Return the reply that the events of a stream build; only text blocks are text, thinking is not.

    Raises:
        ProviderError: there is an error among the events, they break off, or they end in nothing that could be graded.
    """
    texts: list[str] = []
    first: Any = None
    usage: dict[str, Any] = {}
    stop_reason: str | None = None
    ended = False
    for event in events:
        failure = failure_of_body(event, redactor=redactor)
        if failure:
            raise _spent(failure, usage)
        match at(event, "type"):
            case "message_start":
                first = at(event, "message")
                usage |= _usage(first)
            case "content_block_start" | "content_block_delta":
                texts.append(_text(event))
            case "message_delta":
                stop_reason = text_at(event, "delta", "stop_reason") or stop_reason
                usage |= _usage(event)
            case "message_stop":
                ended = True
    if not ended:
        raise _spent(broken_stream(), usage)
    if stop_reason not in STOP:
        # Without any, the event in which the model ends was lost on the way.
        kind = "server_error" if stop_reason is None else "malformed"
        raise _spent(ProviderError(kind, redactor(f"the stop reason is {stop_reason!r}")), usage)
    resolved = text_at(first, "model")
    return Reply(
        text="".join(texts),
        stop=STOP[stop_reason],
        resolved_model=resolved,
        response_id=text_at(first, "id"),
        input_tokens=input_tokens(usage),
        output_tokens=tokens_at(usage, "output_tokens") or None,
        reasoning_tokens=tokens_at(usage, "output_tokens_details", "thinking_tokens"),
        standing=standing_of(model, resolved),
    )


def input_tokens(usage: Any) -> int | None:
    """Return all input tokens: those of the request and those written to and read from the prompt cache."""
    counts = [tokens_at(usage, f"{part}input_tokens") for part in ("", "cache_creation_", "cache_read_")]
    return None if counts[0] is None else sum(count or 0 for count in counts)


def _text(event: Any) -> str:
    """Return the text of a block's start or delta; of a block of another type, none."""
    part = at(event, "content_block") or at(event, "delta")
    return text_at(part, "text") or "" if at(part, "type") in ("text", "text_delta") else ""


def _usage(holder: Any) -> dict[str, Any]:
    usage = at(holder, "usage")
    return {key: value for key, value in usage.items() if value is not None} if isinstance(usage, dict) else {}


def _spent(failure: ProviderError, usage: Mapping[str, Any]) -> ProviderError:
    failure.input_tokens, failure.output_tokens = input_tokens(usage), tokens_at(usage, "output_tokens")
    return failure
