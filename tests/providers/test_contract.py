"""What every provider must do, on every one of them: the same cases, played by a server that really misbehaves."""

from __future__ import annotations

import traceback
from importlib import import_module

import pytest

from canaryd.errors import ConfigError
from canaryd.providers import PROVIDERS, build_provider
from canaryd.providers.base import Surroundings, failure_kind, redactor_of
from canaryd.providers.secret import Secret
from canaryd.records import TRANSPORT_FAILURES, Reply

KEY = "sk-planted-0123456789abcdef"


def test_every_case_ends_as_its_failure_kind_and_tells_no_secret(wire, case, ask, outcome, kinds_of_cases):
    got = outcome(wire.provider(case, timeout_s=0.2 if kinds_of_cases[case] == "timeout" else 30.0), ask)
    if isinstance(got, Reply):
        assert failure_kind(got) == kinds_of_cases[case]
        return
    assert got.kind == kinds_of_cases[case]
    assert got.retryable == (got.kind in TRANSPORT_FAILURES)
    assert (got.__context__, got.__cause__) == (None, None)
    assert KEY not in "".join(traceback.format_exception(got)) + repr(got)
    assert ask.prompt not in got.detail
    assert 0 < len(got.detail) <= 300


def test_a_good_reply_says_what_was_measured(wire, ask, outcome):
    reply = outcome(wire.provider("good"), ask)
    assert (reply.text, reply.stop) == ("<answer>42</answer>", "stop")
    assert reply.response_id
    assert reply.input_tokens > 0
    assert reply.output_tokens > 0


def test_token_counts_that_were_not_reported_are_absent(wire, ask, outcome):
    reply = outcome(wire.provider("no usage"), ask)
    assert reply.text == "<answer>42</answer>"
    assert (reply.input_tokens, reply.output_tokens, reply.reasoning_tokens) == (None, None, None)


def test_the_wire_request_is_stable_and_holds_the_prompt_but_no_key(wire, ask):
    provider = wire.provider("good")
    request = provider.wire_request(ask)
    assert request == provider.wire_request(ask)
    assert ask.prompt in repr(request)
    assert KEY not in repr(request)


@pytest.mark.parametrize(
    "asked",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2026 00:00:00 +99999999999999999999",
        "Mon, 01 Jan 2026 99999999999999999999:00:00 GMT",
        "Mon, 01 Jan 9999 00:00:00 GMT",
        "9" * 400,
    ],
)
def test_a_wait_that_nobody_can_mean_is_ignored(http_wire, ask, outcome, asked):
    failure = outcome(
        http_wire.provider(http_wire.described["error"](429, "rate_limit_error", **{"retry-after": asked})), ask
    )
    assert (failure.kind, failure.retryable, failure.retry_after_s) == ("rate_limited", True, None)


@pytest.mark.parametrize("timeout_s", [0, -1, None, float("nan"), float("inf")])
def test_a_timeout_that_is_no_limit_is_refused(wire, timeout_s):
    with pytest.raises(Exception, match="no limit"):
        wire.provider("good", timeout_s=timeout_s)


PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def test_a_proxy_is_used_where_the_arm_names_it_and_none_of_the_environment(
    http_wire, loopback, ask, outcome, monkeypatch
):
    for name in PROXIES:
        monkeypatch.setenv(name, loopback.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    nowhere = "http://127.0.0.1:9/v1"
    assert outcome(http_wire.provider("good", base_url=nowhere), ask).kind == "connection"
    assert loopback.received == []
    for name in PROXIES:
        monkeypatch.delenv(name)
    through = http_wire.provider("good", base_url=nowhere, options={"proxy": loopback.url})
    assert outcome(through, ask).text == "<answer>42</answer>"
    assert loopback.received[0].path.startswith("http://127.0.0.1:9/v1")


@pytest.mark.parametrize("proxy", ["http://u:hunter22@proxy:80", "proxy:80", "http://proxy:99999", "http://p:80/x", 3])
def test_a_proxy_that_cannot_be_used_is_refused_without_showing_it(wire, proxy):
    asks_a_server = "proxy" in import_module(PROVIDERS[wire.described["PROVIDER"]]).OPTIONS
    said = r"options\.proxy must be http://HOST:PORT" if asks_a_server else r"has no options\.proxy"
    with pytest.raises(ConfigError, match=said) as caught:
        wire.provider("good", options={"proxy": proxy})
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://localhost:9", "http://LocalHost:9/v1"])
def test_a_withheld_host_stands_in_no_error_however_it_is_named(ask, make_arm, address):
    redactor = redactor_of(make_arm("http", base_url=address, redact=True), ask, secrets=())
    told = redactor("certificate is not valid for 'localhost' (http://localhost:9/x), nor api.localhost; localhosts")
    assert told == "certificate is not valid for '[private]' (http://[private]/x), nor api.[private]; localhosts"


def test_a_withheld_address_stands_in_no_error(ask, outcome, make_arm):
    arm = make_arm("bedrock", base_url="http://127.0.0.1:9", redact=True, options={"region": "eu-west-1"})
    keys = Secret("AKIAPLANTED000000000:x", source="planted")
    failure = outcome(build_provider(arm, Surroundings(env={}, secret=keys)), ask)
    assert failure.kind == "connection"
    assert "127.0.0.1" not in failure.detail
