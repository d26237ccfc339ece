"""The openai provider: what it really sends, and what it reads in replies that are unusual."""

from __future__ import annotations

import json

import pytest

from canaryd.errors import ConfigError
from canaryd.providers import build_provider
from canaryd.providers.base import Surroundings, failure_kind
from canaryd.providers.openai_chat import from_response
from canaryd.providers.secret import Secret

KEY = "sk-planted-0123456789abcdef"
REFUSED = {"type": "message", "content": [{"type": "refusal", "refusal": "I cannot"}]}


@pytest.fixture
def sent(wire_of, loopback, ask, outcome):
    """Ask a good server once and return what it received."""

    def play(**changes):
        outcome(wire_of("openai_chat").provider("good", **changes), ask)
        return loopback.received[0]

    return play


def test_parameters_that_are_not_set_are_not_sent(sent, ask):
    assert sent().body == {
        "model": "m-1",
        "messages": [{"role": "system", "content": ask.system}, {"role": "user", "content": ask.prompt}],
    }


def test_parameters_go_out_under_their_wire_names(sent):
    params = {"max_tokens": 64, "temperature": 0, "top_p": 0.9, "top_k": 5, "seed": 3, "effort": "low"}
    options = {"cap_parameter": "max_completion_tokens", "extra_body": {"verbosity": "low"}}
    body = sent(params={**params, "json_mode": True}, options=options).body
    del body["model"], body["messages"]
    assert body == {
        "max_completion_tokens": 64,
        "temperature": 0,
        "top_p": 0.9,
        "top_k": 5,
        "seed": 3,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
        "verbosity": "low",
    }


def test_json_mode_off_sends_nothing(sent):
    assert "response_format" not in sent(params={"json_mode": False}).body


def test_the_wire_request_is_what_arrives(wire_of, loopback, ask, outcome):
    provider = wire_of("openai_chat").provider("good", params={"seed": 3}, options={"organization": "org-1"})
    request = provider.wire_request(ask)
    outcome(provider, ask)
    received = loopback.received[0]
    assert (request.method, request.path, request.body) == (received.method, received.path, received.body)
    assert request.headers.items() <= received.headers.items()
    assert received.headers["authorization"] == f"Bearer {KEY}"


def test_one_call_is_one_request_whatever_comes_back(wire_of, loopback, ask, outcome):
    outcome(wire_of("openai_chat").provider("server error"), ask)
    outcome(wire_of("openai_chat").provider("redirect"), ask)
    assert [request.path for request in loopback.received] == ["/v1/chat/completions"] * 2


def test_the_model_that_answered_is_recorded_with_its_worth(wire_of, ask, outcome):
    reported = outcome(wire_of("openai_chat").provider("good"), ask)
    echo = outcome(wire_of("openai_chat").provider("echo"), ask)
    assert (reported.resolved_model, reported.standing) == ("m-1-0513", "reported")
    assert (echo.resolved_model, echo.standing) == ("m-1", "echo")


def test_reasoning_tokens_and_retry_after_are_read(wire_of, ask, outcome):
    assert outcome(wire_of("openai_chat").provider("good"), ask).reasoning_tokens == 4
    assert outcome(wire_of("openai_chat").provider("rate limited"), ask).retry_after_s == 7


@pytest.mark.parametrize(
    "options",
    [
        {"extra_body": {"model": "another"}},
        {"extra_body": {"temperature": 1}},
        {"extra_body": "x"},
        {"cap_parameter": "max"},
        {"organization": 3},
        {"organization": "\u00fc"},
        {"project": "a\nb"},
        {"apo": "chat"},
    ],
)
def test_options_that_cannot_be_sent_are_refused_by_name(wire_of, options):
    with pytest.raises(ConfigError, match=r"arm 'tracked': .*(apo|options\.\w+)"):
        wire_of("openai_chat").provider("good", params={"temperature": 0}, options=options)


def test_json_mode_and_response_format_together_are_refused(wire_of):
    with pytest.raises(ConfigError, match="json_mode and response_format"):
        wire_of("openai_chat").provider("good", params={"json_mode": True, "response_format": {"type": "text"}})


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OPENAI_CUSTOM_HEADERS", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"])
def test_an_environment_that_changes_requests_is_refused(make_arm, name):
    with pytest.raises(ConfigError, match=f"{name} is set"):
        build_provider(make_arm("openai"), Surroundings(env={name: "x"}, secret=Secret(KEY, source="planted")))


def test_an_arm_without_a_key_is_refused(make_arm):
    with pytest.raises(ConfigError, match='credential = "NAME"'):
        build_provider(make_arm("openai"), Surroundings(env={}))


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_server_that_asks_for_no_key_gets_none(make_arm, wire_of, loopback, ask, outcome, api):
    wire = wire_of(f"openai_{api}")
    wire.play(wire.described["CASES"]["good"])
    arm = make_arm("openai", base_url=f"{loopback.url}/v1", options={"api": api, "auth": "none"})
    assert outcome(build_provider(arm, Surroundings(env={})), ask).text == "<answer>42</answer>"
    assert "authorization" not in {name.lower() for name in loopback.received[0].headers}
    with pytest.raises(ConfigError, match=r"options\.auth is 'none', but the arm has the credential"):
        build_provider(arm, Surroundings(env={}, secret=Secret(KEY, source="planted")))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        # Nothing of it is a model's: a page of a proxy, which is worth asking again.
        ({}, "server_error"),
        (None, "server_error"),
        ([], "server_error"),
        ({"message": "down for maintenance"}, "server_error"),
        ({"error": None}, "server_error"),
        ({"choices": {"0": 1}}, "server_error"),
        ({"choices": []}, "server_error"),
        ({"choices": [{"finish_reason": "stop"}]}, "server_error"),
        ({"choices": [{"finish_reason": None, "message": {"content": "x"}}]}, "server_error"),
        ({"choices": [{"finish_reason": "", "message": {"content": "x"}}]}, "server_error"),
        ({"choices": [{"finish_reason": None, "message": {"refusal": "x"}}]}, "server_error"),
        ({"choices": [{"finish_reason": ["stop"], "message": {"content": "x"}}]}, "malformed"),
        ({"choices": [{"finish_reason": "error", "message": {"content": "x"}}]}, "server_error"),
        ({"error": {"code": 429, "message": "slow down"}}, "rate_limited"),
        ({"error": "out of order"}, "server_error"),
    ],
)
def test_a_body_without_a_finished_message_is_no_reply(wire_of, ask, outcome, body, kind):
    provider = wire_of("openai_chat").provider({"body": json.dumps(body).encode()})
    assert outcome(provider, ask).kind == kind


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"status": "queued", "output": []}, "server_error"),
        ({"status": "in_progress"}, "server_error"),
        ({"status": "cancelled", "output": []}, "server_error"),
        ({"status": "incomplete"}, "malformed"),
        ({"output": None}, "server_error"),
        ({"status": None}, "server_error"),
        ({"status": None, "output": [REFUSED]}, "server_error"),
        ({"status": "in_progress", "output": [REFUSED]}, "server_error"),
        ({"output": [{"type": "function_call", "name": "f"}]}, "malformed"),
    ],
)
def test_a_response_in_which_no_model_has_ended_is_no_reply(wire_of, ask, outcome, changes, kind):
    wire = wire_of("openai_responses")
    assert outcome(wire.provider(wire.described["good"](**changes)), ask).kind == kind


@pytest.mark.parametrize("output", [[], [{"type": "reasoning"}], [{"type": "message", "content": []}]])
def test_a_response_that_is_completed_without_a_text_is_empty(wire_of, ask, outcome, output):
    wire = wire_of("openai_responses")
    assert failure_kind(outcome(wire.provider(wire.described["good"](output=output)), ask)) == "empty"


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses", "http"])
@pytest.mark.parametrize("body", [b"{}", b"null", b"[]", b'{"message": "down for maintenance"}'])
def test_a_page_of_a_proxy_is_no_reply_and_worth_asking_again(wire_of, ask, outcome, name, body):
    failure = outcome(wire_of(name).provider({"body": body}), ask)
    assert (failure.kind, failure.retryable) == ("server_error", True)


def test_a_stream_without_a_choice_is_no_reply(wire_of, ask, outcome):
    failure = outcome(wire_of("openai_chat_stream").provider({"body": b"data: {}\n\ndata: [DONE]\n\n"}), ask)
    assert failure.kind == "server_error"


@pytest.mark.parametrize("delta", [{"content": "<answer>42</answer>"}, {"refusal": "I cannot"}])
def test_a_stream_whose_finish_reason_was_lost_is_no_reply(wire_of, ask, outcome, delta):
    wire = wire_of("openai_chat_stream")
    sent = wire.described["stream"](*wire.described["chunks"](delta, finish_reason=None))
    assert outcome(wire.provider(sent), ask).kind == "server_error"


def test_only_text_parts_of_a_message_are_the_text():
    parts = [{"type": "thinking", "text": "so"}, {"type": "text", "text": "4"}, {"type": "text", "text": "2"}]
    body = {"choices": [{"finish_reason": "stop", "message": {"content": parts}}], "usage": {"completion_tokens": 0}}
    reply = from_response(body, model="m", redactor=str)
    assert reply.text == "42"
    assert reply.output_tokens is None


def test_text_that_is_no_valid_unicode_arrives_as_it_was_sent(wire_of, ask, outcome):
    wire = wire_of("openai_chat")
    text = "\ud83d <answer>\u0000\U0001f600</answer>"
    assert outcome(wire.provider(wire.described["good"](content=text)), ask).text == text


def test_responses_sends_its_own_names_and_reads_no_reasoning_as_text(wire_of, loopback, ask, outcome):
    params = {"max_tokens": 64, "effort": "low", "json_mode": True, "temperature": 0}
    provider = wire_of("openai_responses").provider("good", params=params, options={"extra_body": {"store": False}})
    request = provider.wire_request(ask)
    reply = outcome(provider, ask)
    received = loopback.received[0]
    assert (
        (request.path, request.body)
        == (received.path, received.body)
        == (
            "/v1/responses",
            {
                "model": "m-1",
                "instructions": ask.system,
                "input": ask.prompt,
                "max_output_tokens": 64,
                "reasoning": {"effort": "low"},
                "text": {"format": {"type": "json_object"}},
                "temperature": 0,
                "store": False,
            },
        )
    )
    assert (reply.text, reply.reasoning_tokens) == ("<answer>42</answer>", 4)


@pytest.mark.parametrize(
    "changes", [{"params": {"seed": 1}}, {"params": {"top_k": 1}}, {"options": {"cap_parameter": "max_tokens"}}]
)
def test_what_the_responses_api_does_not_have_is_refused(wire_of, changes):
    with pytest.raises(ConfigError, match="does not exist in the Responses API"):
        wire_of("openai_responses").provider("good", **changes)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("openai_chat_stream", {"stream": True, "stream_options": {"include_usage": True}}),
        ("openai_responses_stream", {"stream": True}),
    ],
)
def test_a_stream_is_asked_for_where_it_is_wanted(wire_of, loopback, ask, outcome, name, asked):
    reply = outcome(wire_of(name).provider("good"), ask)
    assert asked.items() <= loopback.received[0].body.items()
    assert (reply.text, reply.resolved_model, reply.reasoning_tokens) == ("<answer>42</answer>", "m-1-0513", 4)


def test_stream_is_true_or_false(wire_of):
    with pytest.raises(ConfigError, match=r"options\.stream is 'yes'"):
        wire_of("openai_chat").provider("good", options={"stream": "yes"})


def test_the_named_backend_is_recorded(wire_of, ask, outcome):
    wire = wire_of("openai_chat")
    good = wire.described["CASES"]["good"]
    named = {**good, "body": good["body"].replace(b'"created"', b'"system_fingerprint": "fp_44", "created"')}
    assert outcome(wire.provider(named), ask).system_fingerprint == "fp_44"
    assert outcome(wire.provider("good"), ask).system_fingerprint is None
