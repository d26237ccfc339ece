"""The bedrock provider: what it really sends, whose keys it signs with, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import threading
import traceback
from dataclasses import replace

import pytest

from canaryd.errors import ConfigError, CredentialsError
from canaryd.providers import build_provider
from canaryd.providers.base import Surroundings
from canaryd.providers.bedrock import REFUSED_VARIABLES, BedrockProvider, in_thread
from canaryd.providers.secret import Secret

KEYS = "AKIAPLANTED000000000:planted/Lb47+signing-key:planted-Zt19nD-session-token"
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


@pytest.mark.parametrize("below", ["", "/", "/gateway/v1", "/gateway/v2/"])
def test_the_whole_path_of_the_address_is_in_the_wire_request(wire_of, loopback, ask, outcome, below):
    provider = wire_of("bedrock").provider("good", base_url=loopback.url + below)
    request = provider.wire_request(ask)
    assert outcome(provider, ask).text == "<answer>42</answer>"
    assert request.path == loopback.received[0].path == f"{below.rstrip('/')}/model/m-1/converse"
    assert loopback.url.removeprefix("http://") not in repr(request)


@pytest.mark.parametrize("region", ["eu-west-1", "us-east-1"])
def test_without_an_address_the_wire_request_names_the_host_of_the_region(wire_of, ask, region):
    provider = wire_of("bedrock").provider("good", base_url=None, options={"region": region})
    assert provider.wire_request(ask).host == f"bedrock-runtime.{region}.amazonaws.com"


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


class TestKeysOfTheChain:
    """Keys that AWS's own chain finds, for an arm without a credential."""

    @pytest.fixture
    def profile(self, monkeypatch, tmp_path):
        """Write AWS's shared file, whose profile `x` is in force, and clear what would go before it."""
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "absent"))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_PROFILE", "x")
        return (tmp_path / "config").write_text

    @pytest.fixture
    def built(self, make_arm, loopback):
        return lambda: build_provider(
            make_arm("bedrock", base_url=loopback.url, options={"region": "eu-west-1"}), Surroundings(env={})
        )

    @pytest.mark.parametrize("source", ["file", "program"])
    @pytest.mark.parametrize("part", KEYS.split(":"))
    def test_each_of_them_stands_in_no_reply_and_no_error(
        self, profile, built, wire_of, ask, outcome, tmp_path, source, part
    ):
        names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        if source == "file":
            profile("[profile x]\n" + "".join(f"{n} = {key}\n" for n, key in zip(names, KEYS.split(":"), strict=True)))
        else:
            cased = zip(("AccessKeyId", "SecretAccessKey", "SessionToken"), KEYS.split(":"), strict=True)
            (tmp_path / "keys.json").write_text(json.dumps({"Version": 1, **dict(cased)}))
            profile(f"[profile x]\ncredential_process = cat {tmp_path / 'keys.json'}\n")
        wire = wire_of("bedrock")
        wire.play(wire.described["good"]())
        assert outcome(built(), ask).text == "<answer>42</answer>"
        refuse_to_repeat(built(), part, wire=wire, ask=ask, outcome=outcome)

    def test_without_a_key_anywhere_the_arm_is_refused(self, profile, built):
        profile("[profile x]\n")
        with pytest.raises(CredentialsError, match=r"arm 'tracked': AWS's own chain finds no key"):
            built()

    @pytest.mark.parametrize(
        ("text", "error", "said"),
        [
            ("[profile y]\n", ConfigError, r"shared files cannot be used as they are \(The config profile \(x\)"),
            ("[profile x\n", ConfigError, "Unable to parse config file"),
            ("[profile x]\nrole_arn = arn:x\nsource_profile = z\n", ConfigError, 'source_profile "z"'),
            ("[profile x]\ncredential_process = false\n", CredentialsError, r"\(CredentialRetrievalError\)"),
            ("[profile x]\ncredential_process = /nonexistent\n", CredentialsError, r"\(FileNotFoundError\)"),
            ("[profile x]\ncredential_process = echo planted-key\n", CredentialsError, r"\(JSONDecodeError\)"),
        ],
    )
    def test_a_profile_that_brings_no_key_is_refused_as_configured(self, profile, built, text, error, said):
        profile(text)
        with pytest.raises(error, match=f"arm 'tracked': AWS's.*{said}") as caught:
            built()
        assert "planted-key" not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__context__ is None

    def test_a_token_of_single_sign_on_that_is_missing_is_a_fault_of_the_key(self, profile, built, ask, outcome):
        profile(
            "[profile x]\nsso_start_url = https://x.test\nsso_region = eu-west-1\n"
            "sso_account_id = 1\nsso_role_name = r\n"
        )
        assert outcome(built(), ask).kind == "auth"

    def test_a_program_that_breaks_later_is_a_fault_of_the_key(self, profile, built, ask, outcome, tmp_path):
        keys = tmp_path / "keys.json"
        profile(f"[profile x]\ncredential_process = cat {keys}\n")
        soon = "2026-01-01T00:00:00Z"
        keys.write_text(json.dumps({"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": soon}))
        provider = built()
        keys.write_text("planted-key")
        failure = outcome(provider, ask)
        assert (failure.kind, failure.detail.count("planted")) == ("auth", 0)

    def test_the_shared_file_re_points_nothing(self, profile, make_arm):
        keys = "aws_access_key_id = a\naws_secret_access_key = b\n"
        profile(f"[profile x]\n{keys}use_fips_endpoint = true\nuse_dualstack_endpoint = true\n")
        provider = BedrockProvider(make_arm("bedrock", options={"region": "eu-west-1"}), None)
        assert provider._client.meta.endpoint_url == "https://bedrock-runtime.eu-west-1.amazonaws.com"


@pytest.mark.parametrize("part", KEYS.split(":"))
def test_each_part_of_a_credential_stands_in_no_reply_and_no_error(make_arm, loopback, wire_of, ask, outcome, part):
    arm = make_arm("bedrock", base_url=loopback.url, options={"region": "eu-west-1"})
    provider = build_provider(arm, Surroundings(env={}, secret=Secret(KEYS, source="planted")))
    refuse_to_repeat(provider, part, wire=wire_of("bedrock"), ask=ask, outcome=outcome)


def refuse_to_repeat(provider, part, *, wire, ask, outcome):
    """Let the server repeat a part of the keys, in a good reply and in errors, and find it nowhere."""
    wire.play(wire.described["good"](f"<answer>42</answer> {part}"))
    failure = outcome(provider, ask)
    assert (failure.kind, failure.output_tokens) == ("malformed", 12)
    for reply in (wire.described["error"](400, "ValidationException", f"bad: {part}"), {"body": f"[{part}".encode()}):
        wire.play(reply)
        told = outcome(provider, ask)
        assert part not in told.detail + "".join(traceback.format_exception(told))


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"null",
        b"{}",
        b"",
        b"\xff\x00",
        b"[" * 100_000,
        b'{"message": "down for maintenance"}',
        b'{"output": 5, "stopReason": ["end_turn"], "usage": "none"}',
        b'{"stopReason": "end_turn"}',
        b'{"output": {"message": {"content": {"text": "x"}}}, "stopReason": {}, "usage": {"inputTokens": "many"}}',
    ],
)
def test_a_body_of_another_shape_is_no_reply_and_no_fault_of_canaryd(wire_of, ask, outcome, capsys, body):
    failure = outcome(wire_of("bedrock").provider({"body": body}), ask)
    assert (failure.kind, failure.retryable) == ("server_error", True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("body", "headers", "detail"),
    [
        (b'[{"error": {"message": "x"}}]', {}, "HTTP 400: [{'error': {'message': 'x'}}]"),
        (b'{"__type": "ValidationException", "message": "no"}', {}, "HTTP 400 ValidationException: no"),
        (b"<html>", {"x-amzn-errortype": "ValidationException"}, "HTTP 400 ValidationException: <html>"),
        (b"", {}, "HTTP 400"),
    ],
)
def test_an_error_of_any_shape_is_told(wire_of, ask, outcome, capsys, body, headers, detail):
    failure = outcome(wire_of("bedrock").provider({"status": 400, "body": body, "headers": headers}), ask)
    assert (failure.kind, failure.detail) == ("bad_request", detail)
    assert capsys.readouterr().err == ""


def test_an_address_that_the_sdk_cannot_use_is_refused_without_telling_it(wire_of):
    with pytest.raises(ConfigError, match="base_url is no address that boto3 can use") as caught:
        wire_of("bedrock").provider("good", base_url="http://withheld..example/", redact=True)
    assert "withheld..example" not in str(caught.value)


def test_an_arm_without_a_region_is_refused(make_arm):
    with pytest.raises(ConfigError, match=r"set options\.region"):
        build_provider(make_arm("bedrock"), Surroundings(env={}))


@pytest.mark.parametrize("value", ["AKIAPLANTED000000000", ":x", "a:", "a::c"])
def test_a_credential_of_another_form_is_refused_without_showing_it(make_arm, value):
    arm = make_arm("bedrock", options={"region": "eu-west-1"})
    with pytest.raises(CredentialsError, match="ACCESS_KEY_ID:SECRET_ACCESS_KEY") as caught:
        build_provider(arm, Surroundings(env={}, secret=Secret(value, source="planted")))
    assert "AKIAPLANTED" not in str(caught.value)


@pytest.mark.parametrize("name", REFUSED_VARIABLES)
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
