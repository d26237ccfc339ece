"""The http provider: the template, the paths, and the configuration that an application reports."""

from __future__ import annotations

import asyncio

import pytest

from canaryd.errors import ConfigError
from canaryd.providers import build_provider
from canaryd.providers.base import ProviderError, Surroundings
from canaryd.providers.http_report import checked_report
from canaryd.providers.secret import redact

KEY = "sk-planted-0123456789abcdef"
REPORT = {"provider": "openai", "model": "m-1", "temperature": 0.7}


def test_the_template_is_filled_and_the_wire_request_is_what_arrives(wire_of, loopback, ask, outcome):
    provider = wire_of("http").provider("good", options={"headers": {"X-Tenant": "probe"}})
    request = provider.wire_request(ask)
    outcome(provider, ask)
    received = loopback.received[0]
    assert (request.method, request.path, request.body) == (received.method, received.path, received.body)
    assert received.path == "/ask?v=2"
    assert received.body == {"question": ask.prompt, "settings": {"system": ask.system, "depth": 3}}
    assert request.headers.items() <= received.headers.items()
    assert received.headers["authorization"] == f"Bearer {KEY}"


def test_a_key_goes_bare_into_a_header_of_its_own(wire_of, loopback, ask, outcome):
    outcome(wire_of("http").provider("good", options={"auth_header": "X-Key"}), ask)
    assert loopback.received[0].headers["x-key"] == KEY
    assert "authorization" not in loopback.received[0].headers


def test_an_arm_without_a_credential_sends_no_key(wire_of, loopback, ask, outcome, make_arm):
    wire = wire_of("http")
    wire.provider("good")
    arm = make_arm("http", **wire.described["arm"](loopback.url))
    assert outcome(build_provider(arm, Surroundings(env={})), ask).text == "<answer>42</answer>"
    assert "authorization" not in loopback.received[0].headers


def test_what_is_filled_in_is_not_filled_in_again(wire_of, loopback, outcome, ask):
    request = {"q": "{system}|{prompt}|{prompt}|{model}", "list": ["{model}", 1]}
    provider = wire_of("http").provider("good", options={"request": request})
    from_prompt = type(ask)(ask.series, ask.arm, ask.slot_date, ask.item_id, 0, "{prompt}", "{system}{model}")
    outcome(provider, from_prompt)
    assert loopback.received[0].body == {"q": "{prompt}|{system}{model}|{system}{model}|m-1", "list": ["m-1", 1]}


def test_declared_stop_reasons_are_the_only_ones(wire_of, ask, outcome):
    wire = wire_of("http")
    options = {"stop_reasons": {"done": "stop", "declined": "refusal"}}
    for ended, expected in (("done", "stop"), ("declined", "refusal")):
        assert outcome(wire.provider(wire.described["good"](ended=ended), options=options), ask).stop == expected
    assert outcome(wire.provider(wire.described["good"](ended="stop"), options=options), ask).kind == "malformed"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"id": "reply-1"}', "server_error"),
        (b'{"cost": {"in": 3}, "answers": []}', "server_error"),
        (b'{"answers": [{"text": null}]}', "server_error"),
        (b'{"answers": [{"text": "<answer>42</answer>"}]}', "server_error"),
        (b'{"answers": [{"text": "<answer>42</answer>"}], "ended": ""}', "server_error"),
        (b'{"answers": [{"text": null}], "ended": "calls"}', "malformed"),
        (b'{"answers": [{"text": "<answer>42</answer>"}], "ended": "calls"}', "malformed"),
    ],
)
def test_only_what_a_model_has_ended_is_a_reply(wire_of, ask, outcome, body, kind):
    assert outcome(wire_of("http").provider({"body": body}), ask).kind == kind


@pytest.mark.parametrize("text", ["<answer>42</answer>", ""])
def test_a_text_beside_an_error_is_no_reply(wire_of, ask, outcome, text):
    wire = wire_of("http")
    failure = outcome(wire.provider(wire.described["good"](text, error={"message": "upstream timed out"})), ask)
    assert (failure.kind, failure.retryable) == ("server_error", True)
    assert "upstream timed out" in failure.detail


@pytest.mark.parametrize("error", [None, "", False, {}, {"code": None, "message": ""}])
def test_an_error_of_which_nothing_is_set_is_none(wire_of, ask, outcome, error):
    wire = wire_of("http")
    assert outcome(wire.provider(wire.described["good"](error=error)), ask).text == "<answer>42</answer>"


@pytest.mark.parametrize("option", [{"output_path": "error.text"}, {"usage": {"input_tokens": "error.bars"}}])
def test_a_path_into_the_error_says_that_it_is_none(wire_of, ask, outcome, option):
    wire = wire_of("http")
    told = wire.described["good"](error={"text": "<answer>42</answer>", "bars": 3})
    assert outcome(wire.provider(told, options=option), ask).text == "<answer>42</answer>"


class TestReportedConfiguration:
    @pytest.fixture
    def answers(self, wire_of, ask):
        """Ask one provider for several answers with these configurations; return outcomes and the provider."""

        def play(*reports):
            wire = wire_of("http")
            changes = [{} if report is None else {"config": report} for report in reports]
            replies = [wire.described["good"](**change) for change in changes]
            provider = wire.provider(replies[0], options={"config_path": "config"})
            wire.play(*replies)

            async def all_of_them():
                outcomes = []
                for _ in replies:
                    try:
                        outcomes.append(await provider.ask(ask))
                    except ProviderError as error:
                        outcomes.append(error)
                await provider.aclose()
                return outcomes

            return asyncio.run(all_of_them()), provider

        return play

    def test_the_first_one_is_the_run_s_and_the_last_one_is_kept(self, answers):
        changed = {**REPORT, "temperature": 0.3}
        (first, same, other), provider = answers(REPORT, {**REPORT, "seed": None}, changed)
        assert first.text == same.text == "<answer>42</answer>"
        assert (other.kind, other.retryable) == ("config_mismatch", False)
        assert "temperature: 0.7 -> 0.3" in other.detail
        assert provider.first_report == REPORT
        assert provider.last_report == changed

    def test_an_answer_without_one_fails_its_own_item(self, answers):
        (first, without, again), _ = answers(REPORT, None, REPORT)
        assert (first.stop, again.stop) == ("stop", "stop")
        assert (without.kind, without.detail) == ("config_mismatch", "the answer carries no configuration")

    def test_a_field_that_appears_or_goes_is_named(self, answers):
        (_, other), _ = answers(REPORT, {"provider": "openai", "model": "m-1", "seed": 3})
        assert "temperature: 0.7 -> not sent; seed: not sent -> 3" in other.detail

    @pytest.mark.parametrize(
        ("reported", "why"),
        [
            (None, "carries no configuration"),
            ({}, "carries no configuration"),
            ({**REPORT, "base_url": "http://h:port"}, "base_url as .*, but it must be an address that begins with"),
            ({**REPORT, "base_url": "not a url"}, "base_url as"),
            ({**REPORT, "base_url": 5}, "base_url as 5"),
            ([REPORT], "carries no configuration"),
            ({**REPORT, "prefill": "x"}, r"configuration\.prefill is not recorded; allowed: provider, model"),
            ({**REPORT, "seed": [1]}, r"seed as \[1\], but it must be a whole number"),
            ({**REPORT, "seed": 12345678901234567890}, "seed as 12345678901234567890"),
            ({**REPORT, "seed": 10**400}, "seed as 1000"),
            ({**REPORT, "temperature": float("nan")}, "temperature as NaN, but it must be a number from 0 on"),
            ({**REPORT, "temperature": float("inf")}, "temperature as Infinity"),
            ({**REPORT, "temperature": "0.7"}, "temperature as"),
            ({**REPORT, "max_tokens": "many"}, "max_tokens as"),
            ({**REPORT, "json_mode": "false"}, "json_mode as .*, but it must be true or false"),
            ({**REPORT, "json_mode": {"a": 1}}, "json_mode as"),
            ({**REPORT, "response_format": ["a"]}, "response_format as"),
            ({**REPORT, "response_format": {"type": {"a": 1}}}, "response_format as"),
            ({**REPORT, "effort": ["high"]}, "effort as"),
            ({**REPORT, "region": 5}, "region as 5, but it must be a text"),
            ({**REPORT, "provider": True}, "provider as true, but it must be a text"),
            ({**REPORT, "provider": ""}, "provider as"),
            ({**REPORT, "model": " "}, "model as"),
            ({**REPORT, "region": KEY}, "'region' with what looks like a key"),
            ({"provider": "openai"}, r"configuration\.model is missing"),
            ({"model": "m"}, r"configuration\.provider is missing"),
            ({"provider": "openai", "model": None}, r"configuration\.model is missing"),
        ],
    )
    def test_what_cannot_be_recorded_is_refused_and_not_repaired(self, reported, why):
        with pytest.raises(ProviderError, match=why) as caught:
            checked_report(reported, withheld=False, redactor=redact)
        assert caught.value.kind == "config_mismatch"
        assert KEY not in caught.value.detail

    def test_what_is_refused_is_not_the_run_s(self, answers):
        (refused, taken), provider = answers({**REPORT, "temperature": float("nan")}, REPORT)
        assert (refused.kind, taken.stop) == ("config_mismatch", "stop")
        assert provider.first_report == provider.last_report == REPORT

    def test_null_is_not_sent_and_addresses_and_formats_are_reduced(self):
        reported = {**REPORT, "seed": None, "base_url": "https://h.test:8443/v1?x=1"}
        reported["response_format"] = {"type": "json_schema", "schema": {}}
        assert checked_report(reported, withheld=False, redactor=redact) == {
            **REPORT,
            "base_url": "h.test:8443",
            "response_format": "json_schema",
        }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"request": None}, r'options\.request must be a table with the text "\{prompt\}"'),
        ({"request": {"q": "{promt}"}}, r"options\.request must be a table"),
        ({"output_path": None}, r"options\.output_path must say where"),
        ({"output_path": "a..b"}, r"options\.output_path is 'a\.\.b'"),
        ({"usage": {"tokens": "x"}}, r"options\.usage must be a table of paths; allowed: input_tokens"),
        ({"usage": {"input_tokens": 3}}, r"options\.usage\.input_tokens is 3"),
        ({"stop_reasons": {"x": "y"}}, r"options\.stop_reasons\.x is 'y'"),
        ({"stop_path": None, "stop_reasons": {}}, r"options\.stop_reasons must be a table, with stop_path"),
        ({"headers": {"Authorization": "x"}}, r"options\.headers\.Authorization would hold a key"),
        ({"headers": {"x": "\u00fc"}}, r"options\.headers\.x must be a header's name and a text of printable ASCII"),
        ({"headers": {"x": "a\nb"}}, r"options\.headers\.x must"),
        ({"headers": {"x y": "a"}}, r"options\.headers\.x y must"),
        ({"auth_header": "\u00fc"}, r"options\.auth_header is '\u00fc', but must be the name of a header"),
        ({"auth_header": "x y"}, r"options\.auth_header is 'x y'"),
        ({"url": "/\x00"}, r"options\.url is no path that can be sent"),
        ({"headers": {"x": 1}}, r"options\.headers must be a table of texts"),
        ({"url": "https://h/ask"}, r"options\.url is 'https://h/ask', but must be the path under base_url"),
    ],
)
def test_options_that_cannot_be_obeyed_are_refused(wire_of, options, message):
    wire = wire_of("http")
    with pytest.raises(ConfigError, match=message):
        wire.provider("good", options=options)


def test_an_arm_without_an_address_is_refused(wire_of):
    with pytest.raises(ConfigError, match="set base_url"):
        wire_of("http").provider("good", base_url=None)
