"""The claude_cli provider: what the program is given, how it is killed, and the real program where there is one."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from canaryd.errors import ConfigError
from canaryd.providers import build_provider
from canaryd.providers.base import ProviderError, Surroundings, failure_kind
from canaryd.providers.claude_output import from_output
from canaryd.providers.secret import Secret

KEY = "sk-planted-0123456789abcdef"


@pytest.fixture
def seen(wire_of, ask, outcome, tmp_path):
    """Ask the stub once and return what it was given."""

    def play(**changes):
        outcome(wire_of("claude_cli").provider("good", **changes), ask)
        return json.loads((tmp_path / "seen.json").read_text())

    return play


def test_the_program_is_given_the_question_and_nothing_else(seen, ask, loopback, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x: y")
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    given = seen()
    assert (given["prompt"], given["system"], given["files"]) == (ask.prompt, ask.system, [])
    environment = given["environment"]
    assert environment.pop("ANTHROPIC_API_KEY") == KEY
    assert environment.pop("ANTHROPIC_BASE_URL") == loopback.url
    assert environment.pop("HOME") == environment.pop("CLAUDE_CONFIG_DIR") != os.environ["HOME"]
    assert {name for name in environment if name.startswith(("ANTHROPIC", "CLAUDE"))} == {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK",
        "CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK",
        "CLAUDE_CODE_MAX_RETRIES",
    }
    assert environment["DISABLE_AUTOUPDATER"] == "1"


def test_neither_key_nor_panel_stands_among_the_arguments_that_everybody_can_read(seen, ask):
    arguments = seen()["arguments"]
    for text in (KEY, ask.prompt, ask.system):
        assert not any(text in argument for argument in arguments)
    assert arguments[arguments.index("--tools") + 1] == ""
    assert arguments[arguments.index("--max-turns") + 1] == "1"


def test_the_directory_of_a_run_has_the_same_empty_path_each_time(seen):
    assert seen()["folder"] == seen()["folder"]
    assert not Path(seen()["environment"]["HOME"]).exists()


def test_settings_reach_the_program(seen):
    given = seen(
        params={"max_tokens": 64, "effort": "low"}, options={"thinking_tokens": 0, "auth": "oauth_token", "bare": True}
    )
    assert given["environment"]["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "64"
    assert given["environment"]["MAX_THINKING_TOKENS"] == "0"
    assert given["environment"]["CLAUDE_CODE_OAUTH_TOKEN"] == KEY
    assert "ANTHROPIC_API_KEY" not in given["environment"]
    assert given["arguments"][given["arguments"].index("--effort") + 1] == "low"
    assert "--bare" in given["arguments"]


def test_a_proxy_reaches_the_program_only_where_the_arm_names_it(seen, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://elsewhere.test:80")
    assert "HTTPS_PROXY" not in seen()["environment"]
    assert seen(options={"proxy": "http://proxy.test:80"})["environment"]["HTTPS_PROXY"] == "http://proxy.test:80"


def test_the_wire_request_holds_arguments_and_settings(wire_of, ask):
    body = wire_of("claude_cli").provider("good", params={"effort": "low", "max_tokens": 64}).wire_request(ask).body
    assert {"low", "m-1"} <= set(body["arguments"])
    assert body["settings"]["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "64"


def test_the_wire_request_tells_every_change_of_what_the_program_is_given(
    wire_of, loopback, ask, outcome, tmp_path, monkeypatch
):
    def told(**changes):
        provider = wire_of("claude_cli").provider("good", **changes)
        request = provider.wire_request(ask)
        outcome(provider, ask)
        assert request.body["directory"] == json.loads((tmp_path / "seen.json").read_text())["folder"]
        assert loopback.url.removeprefix("http://") not in repr(request)
        return request

    plain = told()
    assert told(base_url=f"{loopback.url}/gateway").body == {**plain.body, "address path": "/gateway"}
    assert told(options={"auth": "oauth_token"}).body == {**plain.body, "key": "CLAUDE_CODE_OAUTH_TOKEN"}
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    elsewhere = str(tmp_path / f"canaryd-claude-{os.getuid()}")
    assert told().body == {**plain.body, "directory": elsewhere} != plain.body


def test_the_deadline_kills_the_program_with_its_children(wire_of, ask, outcome, tmp_path):
    wire = wire_of("claude_cli")
    provider = wire.provider(wire.described["printed"](stalls=True), timeout_s=2.0)
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    assert outcome(provider, ask).kind == "timeout"
    os.set_blocking(alive, True)
    with os.fdopen(alive, "rb") as written:
        assert written.read() == b"11"  # from parent and child; the end comes when both are gone


def test_an_error_result_with_exit_status_0_and_subtype_success_is_a_failure(wire_of, ask, outcome):
    failure = outcome(wire_of("claude_cli").provider("rate limited"), ask)
    assert (failure.kind, failure.retryable) == ("rate_limited", True)


def test_an_empty_result_is_empty_although_tokens_were_spent(wire_of, ask, outcome):
    reply = outcome(wire_of("claude_cli").provider("empty"), ask)
    assert (failure_kind(reply), reply.output_tokens) == ("empty", 13)


@pytest.mark.parametrize("status", [0, 1])
def test_the_reason_is_taken_from_stdout_whatever_the_exit_status(wire_of, ask, outcome, status):
    wire = wire_of("claude_cli")
    lines = wire.described["failed"]("API Error: 529 Overloaded", 529)
    failure = outcome(wire.provider(wire.described["printed"](*lines, status=status)), ask)
    assert (failure.kind, failure.detail) == ("overloaded", "API Error: 529 Overloaded")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Claude AI usage limit reached|1760000400", "rate_limited"),
        ("API Error: Request rejected (429) · no way", "rate_limited"),
        ("API Error: 529 Overloaded", "overloaded"),
        ("Credit balance is too low", "quota"),
        ("Failed to authenticate. API Error: 401", "auth"),
        ("OAuth token has expired", "auth"),
        ("API Error: Request timed out.", "timeout"),
        ("Prompt is too long", "bad_request"),
        ("Segmentation fault", "server_error"),
        ("API Error: fetch failed", "connection"),
        ("getaddrinfo ENOTFOUND api.test", "connection"),
        ('API Error: 400 {"error":{"message":"Output blocked by content filtering policy"}}', "content_filtered"),
        ('API Error: 400 {"error":{"message":"Your credit balance is too low to go on."}}', "quota"),
        ("API Error: 413 the prompt cannot connect", "bad_request"),
    ],
)
def test_the_sentences_of_the_program_are_told_apart(wire_of, text, kind):
    described = wire_of("claude_cli").described
    stdout = described["printed"](*described["failed"](text))["stdout"].encode()
    with pytest.raises(Exception, match=f"^{kind}: "):
        from_output(stdout, b"", model="m", redactor=str)
    with pytest.raises(Exception, match=f"^{kind}: "):
        from_output(b"", text.encode(), model="m", redactor=str)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("Output blocked by content filtering policy", "content_filtered"), ("Credit balance is too low", "quota")],
)
def test_a_phrase_says_more_than_the_status_beside_it(wire_of, ask, outcome, text, kind):
    wire = wire_of("claude_cli")
    plan = wire.described["printed"](*wire.described["failed"](f"API Error: 400 {text}", 400), status=1)
    assert outcome(wire.provider(plan), ask).kind == kind


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("model_context_window_exceeded", "truncated"), ("tool_use", "malformed"), ("end_turn", None), (None, None)],
)
def test_the_stop_reason_of_a_success_means_what_the_api_means_by_it(wire_of, ask, outcome, reason, kind):
    described = wire_of("claude_cli").described
    plan = described["printed"](described["init"](), described["ANSWER"], described["result"](stop_reason=reason))
    got = outcome(wire_of("claude_cli").provider(plan), ask)
    assert (got.kind if isinstance(got, ProviderError) else failure_kind(got)) == kind
    assert got.output_tokens == 13


@pytest.mark.parametrize("usage", [5, [5], "m-2", None])
def test_a_list_of_models_that_is_none_names_nobody(wire_of, ask, outcome, usage):
    described = wire_of("claude_cli").described
    reply = outcome(wire_of("claude_cli").provider(described["printed"](described["result"](modelUsage=usage))), ask)
    assert (reply.text, reply.resolved_model, reply.standing) == ("<answer>42</answer>", None, "not_reported")


def test_a_retry_that_the_program_made_is_no_measurement(wire_of):
    described = wire_of("claude_cli").described
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1}
    for lines in ((retry, described["result"]()), (described["result"](num_turns=2),)):
        stdout = described["printed"](*lines)["stdout"].encode()
        with pytest.raises(Exception, match=r"^harness_retried: "):
            from_output(stdout, b"", model="m", redactor=str)


def test_without_a_system_prompt_the_program_is_not_started(wire_of, ask, outcome, tmp_path):
    failure = outcome(wire_of("claude_cli").provider("good"), replace(ask, system=""))
    assert failure.kind == "bad_request"
    assert not (tmp_path / "seen.json").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": {"version": "2.1.1"}}, r"is version 2\.1\.197, but options\.version pins 2\.1\.1"),
        ({"options": {"version": None}}, r"pins none"),
        ({"options": {"executable": "no-such-claude"}}, "'no-such-claude' is not on PATH"),
        ({"options": {"auth": "password"}}, r"options\.auth is 'password', but must be api_key or oauth_token"),
        ({"options": {"bare": "yes"}}, r"options\.bare is 'yes'"),
        ({"options": {"thinking_tokens": "many"}}, "'many' is no number of tokens"),
        ({"params": {"temperature": 0}}, r"no params\.temperature"),
    ],
)
def test_settings_that_cannot_be_obeyed_are_refused(wire_of, changes, message):
    with pytest.raises(ConfigError, match=message):
        wire_of("claude_cli").provider("good", **changes)


def test_a_directory_that_is_not_empty_is_refused(wire_of, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"canaryd-claude-{os.getuid()}").mkdir()
    (tmp_path / f"canaryd-claude-{os.getuid()}" / "CLAUDE.md").write_text("Be wrong.")
    with pytest.raises(ConfigError, match="must be an empty directory"):
        wire_of("claude_cli").provider("good")


def test_the_real_program_answers_through_the_loopback_server(make_arm, ask, outcome, loopback, wire_of):
    executable = os.environ.get("CANARYD_TEST_CLAUDE") or shutil.which("claude")
    if executable is None:
        pytest.skip("Claude Code is not installed; put claude on PATH or name it in CANARYD_TEST_CLAUDE")
    messages = wire_of("anthropic")
    messages.provider("good")
    options = {"executable": executable, "version": "0"}
    arm = make_arm("claude_cli", base_url=loopback.url, options=options)
    surroundings = Surroundings(env=dict(os.environ), secret=Secret(KEY, source="planted"))
    with pytest.raises(ConfigError, match=r"is version \d+\.\d+\.\d+, but") as caught:
        build_provider(arm, surroundings)
    options["version"] = str(caught.value).split("is version ")[1].split(",")[0]
    reply = outcome(build_provider(arm, surroundings), ask)
    assert (reply.text, reply.resolved_model, reply.output_tokens) == ("<answer>42</answer>", "m-1-0513", 12)
    asked = next(request for request in loopback.received if request.path.startswith("/v1/messages"))
    assert asked.body["tools"] == []
    assert ask.system in json.dumps(asked.body["system"])
