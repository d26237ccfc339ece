"""An application's own JSON format, described by the arm's options: Ask -> body, body -> Reply (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from canaryd.providers.base import ProviderError, bad_option, standing_of
from canaryd.providers.wire import Redactor, at, failure_of_body, no_reply, text_at, tokens_at
from canaryd.records import Arm, Ask, JsonValue, Reply, StopKind

Path: TypeAlias = tuple[str | int, ...]

_TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens")
_STOPS: tuple[StopKind, ...] = ("stop", "length", "refusal", "content_filter")


@dataclass(frozen=True, slots=True)
class HttpFormat:
    """How an application is asked and where its answer stands; a path is a sequence of keys and indices."""

    request: JsonValue
    output: Path
    usage: Mapping[str, Path]
    stop: Path | None = None
    stop_reasons: Mapping[str, StopKind] = field(default_factory=dict)
    model: Path | None = None
    response_id: Path | None = None
    config: Path | None = None

    def reads(self, key: str) -> bool:
        """Return whether a declared path leads into a key of the body."""
        declared = (self.output, self.stop, self.model, self.response_id, self.config, *self.usage.values())
        return any(path[0] == key for path in declared if path is not None)


def format_of(arm: Arm) -> HttpFormat:
    """Return the format that an arm's options describe.

    Raises:
        ConfigError: an option is missing or cannot be read.
    """
    request, usage = arm.options.get("request"), arm.options.get("usage", {})
    if not isinstance(request, dict) or "{prompt}" not in repr(request):
        raise bad_option(arm, "request", why='must be a table with the text "{prompt}" in it, where the question goes')
    if not isinstance(usage, dict) or not usage.keys() <= set(_TOKENS):
        raise bad_option(arm, "usage", why=f"must be a table of paths; allowed: {', '.join(_TOKENS)}")
    output = _path(arm, "output_path", value=arm.options.get("output_path"))
    if output is None:
        raise bad_option(arm, "output_path", why='must say where the answer stands, as in "choices.0.text"')
    return HttpFormat(
        request=request,
        output=output,
        usage={name: cast("Path", _path(arm, f"usage.{name}", value=path)) for name, path in usage.items()},
        stop=_path(arm, "stop_path", value=arm.options.get("stop_path")),
        stop_reasons=_stop_reasons(arm),
        model=_path(arm, "model_path", value=arm.options.get("model_path")),
        response_id=_path(arm, "id_path", value=arm.options.get("id_path")),
        config=_path(arm, "config_path", value=arm.options.get("config_path")),
    )


def to_request(ask: Ask, *, wire: HttpFormat, model: str) -> JsonValue:
    """Return the request template with {prompt}, {system} and {model} filled in, in every text of it."""
    return _filled(wire.request, {"{prompt}": ask.prompt, "{system}": ask.system, "{model}": model})


def from_response(body: Any, *, wire: HttpFormat, model: str, redactor: Redactor) -> Reply:
    """Return the reply that stands at the format's paths.

    Raises:
        ProviderError: the body holds an error (also beside a text), nothing that a model has ended (`server_error`), or
            nothing that could be graded (`malformed`).
    """
    text = at(body, *wire.output)
    failure = failure_of_body(body, redactor=redactor)
    if failure and not (isinstance(text, str) and wire.reads("error")):
        raise failure
    reason = None if wire.stop is None else at(body, *wire.stop)
    if text is None and reason is None:
        raise no_reply("value at output_path" + (" or stop_path" if wire.stop else ""))
    if not isinstance(text, str):
        raise ProviderError("malformed", redactor(f"no text at output_path, but {type(text).__name__}"))
    stop = "stop" if wire.stop is None else wire.stop_reasons.get(str(reason))
    if stop is None:
        kind = "server_error" if reason in (None, "") else "malformed"
        raise ProviderError(kind, redactor(f"the stop reason is {reason!r}"))
    counts = {name: tokens_at(body, *wire.usage[name]) if name in wire.usage else None for name in _TOKENS}
    resolved = None if wire.model is None else text_at(body, *wire.model)
    return Reply(
        text=text,
        stop=stop,
        resolved_model=resolved,
        response_id=None if wire.response_id is None else text_at(body, *wire.response_id),
        input_tokens=counts["input_tokens"],
        output_tokens=counts["output_tokens"] or None,
        reasoning_tokens=counts["reasoning_tokens"],
        standing=standing_of(model, resolved),
    )


def _filled(value: JsonValue, texts: Mapping[str, str]) -> JsonValue:
    """Return a template with its placeholders replaced; what was filled in is not looked at again."""
    if isinstance(value, dict):
        return {key: _filled(inner, texts) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, texts) for inner in value]
    if not isinstance(value, str):
        return value
    for name, text in texts.items():
        before, found, after = value.partition(name)
        if found:
            return f"{_filled(before, texts)}{text}{_filled(after, texts)}"
    return value


def _path(arm: Arm, option: str, *, value: JsonValue) -> Path | None:
    """Return the steps of a dotted path; a step of digits is an index."""
    if value is None:
        return None
    if not isinstance(value, str) or not all(value.split(".")):
        raise bad_option(arm, option, why=f'is {value!r}, but must be keys and indices, as in "choices.0.text"')
    return tuple(int(step) if step.isdecimal() else step for step in value.split("."))


def _stop_reasons(arm: Arm) -> dict[str, StopKind]:
    declared = arm.options.get("stop_reasons")
    if declared is None:
        return {stop: stop for stop in _STOPS}
    if "stop_path" not in arm.options or not isinstance(declared, dict):
        raise bad_option(arm, "stop_reasons", why="must be a table, with stop_path beside it")
    for reason, stop in declared.items():
        if stop not in _STOPS:
            raise bad_option(arm, f"stop_reasons.{reason}", why=f"is {stop!r}, but must be one of {', '.join(_STOPS)}")
    return cast("dict[str, StopKind]", declared)
