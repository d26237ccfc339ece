"""Statuses, codes, waits and broken bodies."""

from __future__ import annotations

import pytest

from canaryd.providers.base import ProviderError
from canaryd.providers.wire import failure_of_status, kind_of_status, reply_json, retry_after_s


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, None, "bad_request"),
        (400, "content_filter", "content_filtered"),
        (401, None, "auth"),
        (402, None, "quota"),
        (403, None, "auth"),
        (404, None, "not_found"),
        (408, None, "timeout"),
        (413, None, "bad_request"),
        (422, None, "bad_request"),
        (429, None, "rate_limited"),
        (429, "insufficient_quota", "quota"),
        (429, "invalid_request_error", "rate_limited"),
        (500, None, "server_error"),
        (502, None, "server_error"),
        (503, None, "overloaded"),
        (504, None, "timeout"),
        (529, None, "overloaded"),
        (302, None, "not_found"),
        (None, "rate_limit_error", "rate_limited"),
        (None, None, "server_error"),
    ],
)
def test_a_status_and_its_code_have_one_kind(status, code, kind):
    assert kind_of_status(status, code=code) == kind


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Mon, 01 Jan 9999 00:00:00 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
        (
            {"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "Wed, 21 Oct 2015 07:28:00 +99999999999999999"},
            None,
        ),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_a_reply_asks_for(headers, wait):
    assert retry_after_s(headers) == wait


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "no", "code": "x"}}',
        b'{"error": "no"}',
        b'{"message": "no"}',
        b"no",
        b'{"detail": "no"}',
    ],
)
def test_the_message_of_an_error_body_of_any_shape_is_kept(body):
    assert failure_of_status(500, headers={}, body=body, redactor=str).detail.endswith(": no")


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff", b"<html>"])
def test_a_body_that_is_no_json_was_never_a_reply(body):
    with pytest.raises(ProviderError) as caught:
        reply_json(body)
    assert caught.value.kind == "server_error"


def test_what_a_provider_asks_to_wait_is_said() -> None:
    error = failure_of_status(429, headers={"retry-after": "30"}, body=b"slow down", redactor=str)
    assert (error.retry_after_s, error.detail) == (30.0, "HTTP 429: slow down (Retry-After: 30 s)")
