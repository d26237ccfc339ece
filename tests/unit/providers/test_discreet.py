"""A reply that repeats the key is refused whole, wherever the key stands in it."""

import asyncio
from datetime import date
from typing import ClassVar

import pytest

from canaryd.providers.base import ProviderError, ReportsConfiguration
from canaryd.providers.discreet import discreet
from canaryd.providers.secret import Secret
from canaryd.records import Ask, Reply
from canaryd.testing import ScriptedProvider

KEY = Secret("planted-key-1", source="test")
ASK = Ask("s", "t", date(2027, 1, 1), "i", 0, "", "2 + 2?")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(f"you sent {KEY.reveal()}", "stop", output_tokens=5),
        Reply("4", "stop", response_id=KEY.reveal()),
        Reply("4", "stop", resolved_model=f"m-{KEY.reveal()}"),
    ],
)
def test_a_reply_with_the_key_is_malformed(reply: Reply) -> None:
    with pytest.raises(ProviderError) as caught:
        asyncio.run(discreet(ScriptedProvider(lambda ask, times: reply), KEY).ask(ASK))
    assert (caught.value.kind, caught.value.output_tokens) == ("malformed", reply.output_tokens)
    assert KEY.reveal() not in str(caught.value)


def test_names_are_made_printable_and_the_text_is_left_as_it_came() -> None:
    odd = Reply("a\ud800", "stop", resolved_model="m\ud800", response_id="r\x00", system_fingerprint="f\n")
    reply = asyncio.run(discreet(ScriptedProvider(lambda ask, times: odd), KEY).ask(ASK))
    assert (reply.resolved_model, reply.response_id, reply.system_fingerprint) == ("m\ufffd", "r\ufffd", "f\ufffd")
    assert reply.text == "a\ud800"


def test_another_reply_and_everything_else_pass() -> None:
    class Reporting(ScriptedProvider):
        first_report: ClassVar = {"provider": "p", "model": "m"}
        last_report: ClassVar = {"provider": "p", "model": "m2"}

    plain = discreet(ScriptedProvider(lambda ask, times: Reply("4", "stop")), KEY)
    assert asyncio.run(plain.ask(ASK)).text == "4"
    assert not isinstance(plain, ReportsConfiguration)
    reporting = discreet(Reporting(lambda ask, times: Reply("4", "stop")), KEY)
    assert isinstance(reporting, ReportsConfiguration)
    assert (reporting.first_report, reporting.last_report) == (Reporting.first_report, Reporting.last_report)
    assert plain.wire_request(ASK).body == reporting.wire_request(ASK).body
    assert plain.tool_versions() == {}
    asyncio.run(plain.aclose())
