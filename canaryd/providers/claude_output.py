"""What `claude -p --output-format stream-json` prints, read as a Reply (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from canaryd.providers.anthropic_messages import STOP, input_tokens
from canaryd.providers.base import ProviderError, standing_of
from canaryd.providers.wire import KIND_OF_PHRASE, Redactor, at, kind_of_status, parsed_json, text_at, tokens_at
from canaryd.records import Reply

#: The program words its failures for people. These phrases say more than a status beside them.
_DECISIVE = (
    *KIND_OF_PHRASE.items(),
    ("unable to respond to this request", "refusal"),
    ("output token maximum", "truncated"),
    ("credit balance", "quota"),
)
#: Where there is no status, the first of these tells the failures apart.
_KIND_OF_PHRASE = (
    ("rate limit", "rate_limited"),
    ("usage limit", "rate_limited"),
    ("limit reached", "rate_limited"),
    ("hit your limit", "rate_limited"),
    ("overloaded", "overloaded"),
    ("/login", "auth"),
    ("api key", "auth"),
    ("authenticat", "auth"),
    ("oauth token", "auth"),
    ("selected model", "not_found"),
    ("unknown option", "bad_request"),
    ("prompt is too long", "bad_request"),
    ("timed out", "timeout"),
    ("connect", "connection"),
    ("econn", "connection"),
    ("enotfound", "connection"),
    ("eai_again", "connection"),
    ("fetch failed", "connection"),
    ("socket hang up", "connection"),
)
_STATUS = re.compile(r"API Error: (\d{3})\b|\((\d{3})\)")


def from_output(stdout: bytes, stderr: bytes, *, model: str, redactor: Redactor) -> Reply:
    """Return the reply of one run of the program; what it says on stdout counts, whatever its exit status is.

    Raises:
        ProviderError: the run failed, or the program asked the model more than once (`harness_retried`).
    """
    events = list(_events(stdout))
    result = next((event for event in reversed(events) if at(event, "type") == "result"), None)
    if result is None:
        said = (stdout.strip() or stderr.strip()).decode(errors="replace")
        raise ProviderError(kind_of_text(said), redactor(f"no result was printed, but: {said or 'nothing'}"))
    usage = at(result, "usage")
    spent, made = input_tokens(usage), tokens_at(usage, "output_tokens") or None
    text = text_at(result, "result") or ""
    reason = text_at(result, "stop_reason") or "end_turn"  # some versions of the program name none
    refused = reason == "refusal"
    if (at(result, "is_error") or at(result, "subtype") != "success") and not refused:
        kind = _kind_of_result(result, text)
        raise ProviderError(kind, redactor(text or str(at(result, "subtype"))), input_tokens=spent, output_tokens=made)
    if text and not refused and _was_repeated(events, result):
        detail = "the program asked the model more than once for this answer"
        raise ProviderError("harness_retried", detail, input_tokens=spent, output_tokens=made)
    if reason not in STOP:
        detail = f"the stop reason is {reason!r}"
        raise ProviderError("malformed", redactor(detail), input_tokens=spent, output_tokens=made)
    answers = list(_answers(events))
    models = at(result, "modelUsage")
    named = next(iter(models), None) if isinstance(models, dict) else None
    resolved = text_at(answers[-1], "model") if answers else named
    return Reply(
        text=text,
        stop=STOP[reason],
        resolved_model=resolved,
        response_id=text_at(answers[-1], "id") if answers else text_at(result, "session_id"),
        input_tokens=spent,
        output_tokens=made,
        standing=standing_of(model, resolved),
    )


def kind_of_text(text: str) -> str:
    """Return the failure kind that a sentence of the program tells.

    >>> kind_of_text("API Error: 529 no way"), kind_of_text("You've hit your limit"), kind_of_text("?")
    ('overloaded', 'rate_limited', 'server_error')
    """
    if decided := _kind_in(text, _DECISIVE):
        return decided
    if found := _STATUS.search(text):
        return kind_of_status(int(found[1] or found[2]))
    return _kind_in(text, _KIND_OF_PHRASE) or "server_error"


def _kind_in(text: str, phrases: Iterable[tuple[str, str]]) -> str | None:
    """Return the kind of the first of some phrases that stands in a text."""
    lowered = text.lower()
    return next((kind for phrase, kind in phrases if phrase in lowered), None)


def _kind_of_result(result: Any, text: str) -> str:
    if at(result, "subtype") == "error_max_turns":
        return "malformed"  # the one turn that it has ended in something else than an answer
    status = at(result, "api_error_status")
    if isinstance(status, int) and not _kind_in(text, _DECISIVE):
        return kind_of_status(status)
    return kind_of_text(text)


def _events(stdout: bytes) -> Iterable[Any]:
    for line in stdout.splitlines():
        try:
            yield parsed_json(line)
        except ValueError:
            continue


def _answers(events: Iterable[Any]) -> Iterable[Any]:
    """Yield the messages that came from a model; the program words its own as `<synthetic>`."""
    for event in events:
        message = at(event, "message")
        if at(event, "type") == "assistant" and at(message, "model") != "<synthetic>":
            yield message


def _was_repeated(events: Iterable[Any], result: Any) -> bool:
    """Return whether the program retried, or told the model to go on, before it had this result."""
    events = list(events)
    ids = {text_at(message, "id") for message in _answers(events)}
    retried = any(at(event, "subtype") == "api_retry" for event in events)
    turns = at(result, "num_turns")
    return retried or len(ids) > 1 or (isinstance(turns, int) and turns > 1)
