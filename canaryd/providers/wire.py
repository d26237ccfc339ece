"""What every HTTP wire format shares: reading replies that may be broken, and telling failures apart (pure)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from canaryd.providers.base import ProviderError

Redactor = Callable[[str], str]

#: The one table of statuses; 3xx is not_found (nothing is re-routed), other 4xx bad_request, other 5xx server_error.
KIND_OF_STATUS = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "not_found",
    405: "not_found",
    407: "auth",
    408: "timeout",
    409: "server_error",
    410: "not_found",
    425: "server_error",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
#: Codes and types of error bodies that say more than the status does.
KIND_OF_CODE = {
    "api_error": "server_error",
    "authentication_error": "auth",
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "content_filter": "content_filtered",
    "content_policy_violation": "content_filtered",
    "insufficient_quota": "quota",
    "invalid_api_key": "auth",
    "invalid_request_error": "bad_request",
    "model_not_found": "not_found",
    "not_found_error": "not_found",
    "overloaded_error": "overloaded",
    "permission_error": "auth",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "request_too_large": "bad_request",
    "server_error": "server_error",
    "timeout_error": "timeout",
}
#: Codes that decide even against a status; the others only speak where there is none (an error inside a 200 stream).
_DECISIVE = frozenset(
    {
        "billing_error",
        "billing_hard_limit_reached",
        "content_filter",
        "content_policy_violation",
        "insufficient_quota",
        "invalid_api_key",
        "model_not_found",
        "overloaded_error",
    }
)
#: Phrases that decide where a status 400 is all that a provider says.
KIND_OF_PHRASE = {
    "content filtering policy": "content_filtered",
    "credit balance is too low": "quota",
}
_LONGEST_WAIT_S = 1e6


def kind_of_status(status: int | None, *, code: str | None = None) -> str:
    """Return the failure kind of an HTTP status that is no success, refined by the error body's code or type.

    >>> kind_of_status(429), kind_of_status(429, code="insufficient_quota"), kind_of_status(500), kind_of_status(422)
    ('rate_limited', 'quota', 'server_error', 'bad_request')
    >>> kind_of_status(None, code="overloaded_error")
    'overloaded'
    """
    if code in KIND_OF_CODE and (status is None or code in _DECISIVE):
        return KIND_OF_CODE[code]
    if status is None or status >= 500:
        return KIND_OF_STATUS.get(status or 0, "server_error")
    if 300 <= status < 400:
        return "not_found"
    return KIND_OF_STATUS.get(status, "bad_request")


def failure_of_status(status: int, *, headers: Mapping[str, str], body: bytes, redactor: Redactor) -> ProviderError:
    """Return the error of an HTTP reply whose status is no success."""
    codes, message = error_of(body)
    code = next((code for code in codes if code in _DECISIVE), codes[0] if codes else None)
    kind = kind_of_status(status, code=code)
    if kind == "bad_request":
        kind = next((KIND_OF_PHRASE[phrase] for phrase in KIND_OF_PHRASE if phrase in message), kind)
    detail = f"HTTP {status} {code or ''}".rstrip() + (f": {message}" if message else "")
    wait = retry_after_s(headers)
    asked = "" if wait is None else f" (Retry-After: {wait:g} s)"
    return ProviderError(kind, redactor(detail) + asked, retry_after_s=wait)


def failure_of_body(body: Any, *, redactor: Redactor) -> ProviderError | None:
    """Return the error that a body with status 200 holds under "error", or None, also where no field of it is set."""
    error = at(body, "error")
    if not error or (isinstance(error, dict) and not any(error.values())):
        return None
    codes, message = _error_in(body)
    status = at(error, "code")
    known = next((code for code in codes if code in KIND_OF_CODE), None)
    if known is None and isinstance(status, int) and 300 <= status < 600:
        kind = kind_of_status(status)
    else:
        kind = kind_of_status(None, code=known)
    return ProviderError(kind, redactor(f"an error inside HTTP 200: {known or status or ''} {message}"))


def error_of(body: bytes) -> tuple[list[str], str]:
    """Return (codes and types, message) of the body of a reply whose status is no success."""
    try:
        return _error_in(parsed_json(body))
    except ValueError:
        return [], body[:2000].decode(errors="replace")


def _error_in(body: Any) -> tuple[list[str], str]:
    """Return (codes and types, message) of an error body of any of the usual shapes."""
    error = at(body, "error") or body
    if not isinstance(error, dict):
        return [], str(error) if error else ""
    codes = [value for key in ("code", "type", "status", "__type") if isinstance(value := error.get(key), str)]
    message = next((value for key in ("message", "detail", "Message") if isinstance(value := error.get(key), str)), "")
    return codes, message


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a reply asks to wait, or None where it asks for none that could be meant.

    A date is measured against the reply's own Date header.

    >>> retry_after_s({"retry-after": "2"}), retry_after_s({"retry-after-ms": "1500"}), retry_after_s({})
    (2.0, 1.5, None)
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            wait = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        return wait if 0 <= wait < _LONGEST_WAIT_S else None
    try:
        wanted = parsedate_to_datetime(headers.get("retry-after", ""))
        wait = (wanted - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, wait) if wait < _LONGEST_WAIT_S else None


def parsed_json(body: bytes) -> Any:
    """Return the JSON value of a body.

    Raises:
        ValueError: the body is no JSON text.
    """
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def reply_json(body: bytes) -> Any:
    """Return the JSON value of a reply with status 200.

    Raises:
        ProviderError: kind `server_error`; a body that breaks off was never a reply, so asking again may measure.
    """
    with suppress(ValueError):
        return parsed_json(body)
    raise ProviderError("server_error", f"HTTP 200 with a body of {len(body)} bytes that is no JSON")


def stream_events(body: bytes) -> list[Any]:
    """Return the data of each event of a whole event stream as JSON values, up to the first that is no JSON.

    The closing `[DONE]` of some streams is such a value: the text.

    >>> stream_events(b'event: a\\ndata: {"n":\\ndata: 1}\\n\\n: a comment\\n\\ndata: [DONE]\\n\\ndata: {')
    [{'n': 1}, '[DONE]']
    """
    events: list[Any] = []
    for block in body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n"):
        data = b"\n".join(line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:"))
        if not data:
            continue
        try:
            events.append("[DONE]" if data == b"[DONE]" else parsed_json(data))
        except ValueError:
            break
    return events


def no_reply(expected: str) -> ProviderError:
    """Return the error of a body with status 200 in which nothing is a model's: a page of a proxy, say."""
    return ProviderError("server_error", f"HTTP 200 with a body that is none of the API's: it has no {expected}")


def broken_stream() -> ProviderError:
    """Return the error of an event stream that stops before its end."""
    return ProviderError("server_error", "the event stream stops before its end")


def at(value: Any, *path: str | int) -> Any:
    """Return the value at a path of keys and indices, or None where a step is missing.

    >>> at({"a": [{"b": 1}]}, "a", 0, "b"), at({"a": None}, "a", 0, "b")
    (1, None)
    """
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def text_at(value: Any, *path: str | int) -> str | None:
    """Return the non-empty text at a path, or None."""
    found = at(value, *path)
    return found if isinstance(found, str) and found else None


def tokens_at(value: Any, *path: str | int) -> int | None:
    """Return the token count at a path, or None where none was reported, or none that can be one."""
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**31 else None
