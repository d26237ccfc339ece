"""The anthropic provider: what it really sends, and how its event streams are read."""

from __future__ import annotations

import pytest

from canaryd.errors import ConfigError
from canaryd.providers import build_provider
from canaryd.providers.anthropic_messages import from_events
from canaryd.providers.base import ProviderError, Surroundings
from canaryd.providers.secret import Secret

KEY = "sk-planted-0123456789abcdef"


def test_what_is_not_set_is_not_sent(wire_of, loopback, ask, outcome):
    outcome(wire_of("anthropic").provider("good"), ask)
    assert loopback.received[0].body == {
        "model": "m-1",
        "max_tokens": 64,
        "system": ask.system,
        "messages": [{"role": "user", "content": ask.prompt}],
        "stream": True,
    }


def test_settings_are_passed_through_and_the_wire_request_is_what_arrives(wire_of, loopback, ask, outcome):
    params = {"temperature": 0, "top_k": 5, "effort": "low"}
    options = {
        "api_version": "2023-06-01",
        "betas": ["one", "two"],
        "thinking": {"type": "adaptive"},
        "extra_body": {"speed": "fast"},
    }
    provider = wire_of("anthropic").provider("good", params=params, options=options)
    request = provider.wire_request(ask)
    outcome(provider, ask)
    received = loopback.received[0]
    assert (request.method, request.path, request.body) == (received.method, received.path, received.body)
    assert request.headers == {"anthropic-version": "2023-06-01", "anthropic-beta": "one,two"}
    assert request.headers.items() <= received.headers.items()
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.body["output_config"] == {"effort": "low"}
    assert received.body["thinking"] == {"type": "adaptive"}
    assert (received.body["temperature"], received.body["top_k"], received.body["speed"]) == (0, 5, "fast")


def test_the_api_version_that_the_sdk_chooses_is_in_the_wire_request(wire_of, loopback, ask, outcome):
    provider = wire_of("anthropic").provider("good")
    request = provider.wire_request(ask)
    outcome(provider, ask)
    assert request.headers["anthropic-version"] == loopback.received[0].headers["anthropic-version"]


def test_one_call_is_one_request_whatever_comes_back(wire_of, loopback, ask, outcome):
    outcome(wire_of("anthropic").provider("overloaded 529"), ask)
    outcome(wire_of("anthropic").provider("error inside 200"), ask)
    assert len(loopback.received) == 2


def test_thinking_is_counted_and_never_text(wire_of, ask, outcome):
    reply = outcome(wire_of("anthropic").provider("good"), ask)
    assert reply.text == "<answer>42</answer>"
    assert (reply.input_tokens, reply.output_tokens, reply.reasoning_tokens) == (31, 12, 4)
    assert (reply.resolved_model, reply.standing) == ("m-1-0513", "reported")


def test_an_error_event_discards_the_partial_text_and_keeps_what_was_spent(wire_of, ask, outcome):
    failure = outcome(wire_of("anthropic").provider("error inside 200"), ask)
    assert (failure.kind, failure.retryable) == ("overloaded", True)
    assert (failure.input_tokens, failure.output_tokens) == (31, 1)
    assert "answer" not in failure.detail


@pytest.mark.parametrize(
    ("stop_reason", "stop"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
    ],
)
def test_each_stop_reason_has_one_meaning(wire_of, stop_reason, stop):
    events = wire_of("anthropic").described["events"]("x", stop_reason=stop_reason)
    assert from_events(events, model="m", redactor=str).stop == stop


@pytest.mark.parametrize("stop_reason", ["tool_use", "pause_turn", "something new"])
def test_a_stop_reason_that_ends_no_answer_is_malformed(wire_of, stop_reason):
    events = wire_of("anthropic").described["events"]("x", stop_reason=stop_reason)
    with pytest.raises(ProviderError) as caught:
        from_events(events, model="m", redactor=str)
    assert caught.value.kind == "malformed"


def test_a_stream_whose_stop_reason_was_lost_is_no_reply(wire_of, ask, outcome):
    wire = wire_of("anthropic")
    events = [event for event in wire.described["events"]("x") if event["type"] != "message_delta"]
    for sent in (events, wire.described["events"]("x", stop_reason=None)):
        assert outcome(wire.provider(wire.described["stream"](*sent)), ask).kind == "server_error"


@pytest.mark.parametrize("events", [[], [None], [1, "x", {"type": "message_start", "message": []}]])
def test_events_that_are_no_message_are_no_reply(events):
    with pytest.raises(ProviderError) as caught:
        from_events(events, model="m", redactor=str)
    assert caught.value.kind == "server_error"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": {"thinking": "yes"}}, r"options\.thinking must be a table"),
        ({"options": {"betas": "one"}}, r"options\.betas"),
        ({"options": {"betas": ["a\nb"]}}, r"options\.betas"),
        ({"options": {"api_version": "\u00fc"}}, r"options\.api_version must be printable ASCII"),
        ({"options": {"api_version": 3}}, r"options\.api_version"),
        ({"options": {"extra_body": {"stream": False}}}, r"options\.extra_body\.stream"),
        ({"params": {"seed": 1}}, r"no params\.seed"),
    ],
)
def test_settings_that_cannot_be_sent_are_refused(wire_of, changes, message):
    with pytest.raises(ConfigError, match=message):
        wire_of("anthropic").provider("good", **changes)


def test_an_arm_without_a_limit_on_output_is_refused(make_arm):
    with pytest.raises(ConfigError, match=r"set params\.max_tokens"):
        build_provider(make_arm("anthropic"), Surroundings(env={}, secret=Secret(KEY, source="planted")))


@pytest.mark.parametrize("name", ["ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_LOG"])
def test_an_environment_that_changes_requests_is_refused(make_arm, name):
    with pytest.raises(ConfigError, match=f"{name} is set"):
        build_provider(make_arm("anthropic"), Surroundings(env={name: "x"}, secret=Secret(KEY, source="planted")))
