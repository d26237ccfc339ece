"""OpenAI's Responses format: Ask -> body, body -> Reply (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from canaryd.errors import ConfigError
from canaryd.providers.base import ProviderError, standing_of, with_extra_body
from canaryd.providers.openai_chat import response_format, streamed
from canaryd.providers.wire import Redactor, at, broken_stream, failure_of_body, no_reply, text_at, tokens_at
from canaryd.records import Arm, Ask, JsonValue, Reply, StopKind

PATH = "/responses"
_STRUCTURAL = frozenset({"model", "instructions", "input", "stream", "background"})
_ABSENT = ("seed", "top_k")
_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")
_STOP: Mapping[tuple[str | None, str | None], StopKind] = {
    ("completed", None): "stop",
    ("incomplete", "max_output_tokens"): "length",
    ("incomplete", "content_filter"): "content_filter",
}
#: The statuses in which a model has ended; in any other one (queued, in progress, cancelled) it has not.
_ENDED = ("completed", "incomplete")


def wire_fields(arm: Arm) -> dict[str, JsonValue]:
    """Return the request parameters that are set, under their wire names.

    Raises:
        ConfigError: a parameter or option does not exist in this API, or two say the same thing.
    """
    for key in (*(f"params.{name}" for name in _ABSENT if name in arm.params), *_misplaced(arm)):
        raise ConfigError(f"arm {arm.name!r}: {key} does not exist in the Responses API; leave it out")
    fields = {name: value for name, value in arm.params.items() if name in ("temperature", "top_p")}
    if "max_tokens" in arm.params:
        fields["max_output_tokens"] = arm.params["max_tokens"]
    if "effort" in arm.params:
        fields["reasoning"] = {"effort": arm.params["effort"]}
    if (shape := response_format(arm)) is not None:
        fields["text"] = {"format": shape}
    if streamed(arm):
        fields["stream"] = True
    return with_extra_body(arm, fields, structural=_STRUCTURAL)


def to_request(ask: Ask, *, model: str, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the body of one question; an empty system prompt is not sent."""
    system: dict[str, JsonValue] = {"instructions": ask.system} if ask.system else {}
    return {"model": model, **system, "input": ask.prompt, **fields}


def from_response(body: Any, *, model: str, redactor: Redactor) -> Reply:
    """Return the reply that a body with status 200 holds.

    Raises:
        ProviderError: the body holds an error instead, nothing that a model has ended (`server_error`), or nothing that
            could be graded (`malformed`).
    """
    if error := failure_of_body(body, redactor=redactor):
        raise error
    if not isinstance(at(body, "output"), list):
        raise no_reply("output")
    parts = _message_parts(body)
    refusals = [text for part in parts if (text := text_at(part, "refusal"))]
    ended = text_at(body, "status"), text_at(body, "incomplete_details", "reason")
    stop = "refusal" if refusals and ended[0] in _ENDED else _STOP.get(ended)
    input_tokens = tokens_at(body, "usage", "input_tokens")
    output_tokens = tokens_at(body, "usage", "output_tokens") or None  # 0 beside a text: nothing was counted
    if stop is None or (stop == "stop" and not parts and not _is_empty(body)):
        raise ProviderError(
            "malformed" if ended[0] in _ENDED else "server_error",
            redactor(f"no message, and the status is {ended[0]!r} ({ended[1]})"),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        )
    resolved = text_at(body, "model")
    texts = refusals or [text_at(part, "text") or "" for part in parts if at(part, "type") == "output_text"]
    return Reply(
        text="".join(texts),
        stop=stop,
        resolved_model=resolved,
        response_id=text_at(body, "id"),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning_tokens=tokens_at(body, "usage", "output_tokens_details", "reasoning_tokens"),
        standing=standing_of(model, resolved),
    )


def body_of_stream(events: Sequence[Any]) -> Any:
    """Return the body that the same reply would have had without a stream: the last event holds it.

    Raises:
        ProviderError: the stream stops before its end, unless an event is an error (which is then the body).
    """
    for event in events:
        if at(event, "type") == "error":
            return {"error": at(event, "error") or event}
        if at(event, "type") in _LAST_EVENTS:
            return at(event, "response")
    raise broken_stream()


def _message_parts(body: Any) -> list[Any]:
    """Return the content parts of every message of the output; reasoning and tool calls are none."""
    output = at(body, "output")
    messages = [item for item in output if at(item, "type") == "message"] if isinstance(output, list) else []
    contents = [at(message, "content") for message in messages]
    return [part for content in contents if isinstance(content, list) for part in content]


def _is_empty(body: Any) -> bool:
    """Return whether the model has ended without saying or calling anything."""
    return all(at(item, "type") in ("message", "reasoning") for item in at(body, "output"))


def _misplaced(arm: Arm) -> list[str]:
    return ["options.cap_parameter"] if "cap_parameter" in arm.options else []
