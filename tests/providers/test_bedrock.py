"""The bedrock provider: what it really sends, whose keys it signs with, and what it refuses."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from canaryd.errors import ConfigError, CredentialsError
from canaryd.providers import build_provider
from canaryd.providers.base import Surroundings
from canaryd.providers.bedrock import in_thread
from canaryd.providers.secret import Secret

PROFILE = "arn:aws:bedrock:eu-west-1:000000000000:inference-profile/eu.maker.model-1:0"


@pytest.mark.parametrize("model", ["maker.model-1:0", "eu.maker.model-1:0", PROFILE])
def test_the_wire_request_is_what_arrives(wire_of, loopback, ask, outcome, model):
    options = {"extra_body": {"top_k": 5}}
    provider = wire_of("bedrock").provider(
        "good", model=model, params={"max_tokens": 64, "top_p": 0.9}, options=options
    )
    request = provider.wire_request(ask)
    outcome(provider, ask)
    received = loopback.received[0]
    assert (request.method, request.path, request.body) == (received.method, received.path, received.body)
    assert received.body["inferenceConfig"] == {"maxTokens": 64, "topP": 0.9}
    assert received.body["additionalModelRequestFields"] == {"top_k": 5}
    assert "Credential=AKIAPLANTED000000000/" in received.headers["authorization"]
    assert "eu-west-1" in received.headers["authorization"]


def test_a_region_that_is_no_name_is_refused_as_configured(wire_of):
    with pytest.raises(ConfigError, match=r"options\.region is 'x y', which is no name of a region"):
        wire_of("bedrock").provider("good", options={"region": "x y"})


def test_what_is_not_set_is_not_sent(wire_of, loopback, ask, outcome):
    outcome(wire_of("bedrock").provider("good"), replace(ask, system=""))
    assert loopback.received[0].body == {"messages": [{"role": "user", "content": [{"text": ask.prompt}]}]}


def test_the_model_that_answered_is_not_reported_and_cached_input_counts(wire_of, ask, outcome):
    reply = outcome(wire_of("bedrock").provider("good"), ask)
    assert (reply.resolved_model, reply.standing) == (None, "not_reported")
    assert (reply.input_tokens, reply.output_tokens) == (31, 12)


def test_one_call_is_one_request_whatever_comes_back(wire_of, loopback, ask, outcome):
    outcome(wire_of("bedrock").provider("server error"), ask)
    assert len(loopback.received) == 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ((424, "ModelErrorException"), "server_error"),
        ((408, "ModelTimeoutException"), "timeout"),
        ((403, "AccessDeniedException"), "auth"),
        ((400, "ExpiredTokenException"), "auth"),
    ],
)
def test_the_names_of_errors_say_what_failed(wire_of, ask, outcome, reply, kind):
    wire = wire_of("bedrock")
    assert outcome(wire.provider(wire.described["error"](*reply)), ask).kind == kind


def test_a_request_that_the_sdk_refuses_is_bad(wire_of, ask, outcome):
    assert outcome(wire_of("bedrock").provider("good", params={"max_tokens": "many"}), ask).kind == "bad_request"


def test_without_a_key_anywhere_the_failure_is_auth(make_arm, ask, outcome, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    provider = build_provider(make_arm("bedrock", options={"region": "eu-west-1"}), Surroundings(env={}))
    assert outcome(provider, ask).kind == "auth"


def test_an_arm_without_a_region_is_refused(make_arm):
    with pytest.raises(ConfigError, match=r"set options\.region"):
        build_provider(make_arm("bedrock"), Surroundings(env={}))


@pytest.mark.parametrize("value", ["AKIAPLANTED000000000", ":x", "a:", "a::c"])
def test_a_credential_of_another_form_is_refused_without_showing_it(make_arm, value):
    arm = make_arm("bedrock", options={"region": "eu-west-1"})
    with pytest.raises(CredentialsError, match="ACCESS_KEY_ID:SECRET_ACCESS_KEY") as caught:
        build_provider(arm, Surroundings(env={}, secret=Secret(value, source="planted")))
    assert "AKIAPLANTED" not in str(caught.value)


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"])
def test_an_environment_that_re_points_the_sdk_is_refused(make_arm, name):
    with pytest.raises(ConfigError, match=f"{name} is set"):
        build_provider(make_arm("bedrock"), Surroundings(env={name: "x"}))


def test_a_fault_that_boto3_does_not_document_is_not_waited_for(monkeypatch):
    seen = []
    monkeypatch.setattr(threading, "excepthook", seen.append)

    def fault():
        raise LookupError

    with pytest.raises(RuntimeError, match="does not document"):
        asyncio.run(in_thread(fault))
    for thread in threading.enumerate():
        if thread.daemon and thread.name.endswith("(run)"):
            thread.join()
    assert [raised.exc_type for raised in seen] == [LookupError]
