"""What an arm is asked with: host and proxy are components of the harness, and withheld with the address."""

from __future__ import annotations

import pytest

from canaryd.providers.base import WireRequest
from canaryd.records import Arm, Reply
from canaryd.runner.harness import asked_with
from canaryd.testing import ScriptedProvider


@pytest.mark.parametrize(
    ("options", "redact", "found"),
    [
        ({}, False, None),
        ({"proxy": "http://proxy.test:3128"}, False, "proxy.test:3128"),
        ({"proxy": "http://proxy.test:3128"}, True, "withheld"),
    ],
)
def test_a_proxy_is_a_component_where_the_arm_names_one(options, redact, found):
    arm = Arm("t", "tracked", "openai", "m", options=options, redact=redact)
    assert asked_with(arm, ScriptedProvider(lambda ask, times: Reply("4", "stop"))).get("proxy") == found


@pytest.mark.parametrize(
    ("base_url", "redact", "found"),
    [
        (None, False, "runtime.eu-west-1.test"),
        (None, True, "runtime.eu-west-1.test"),
        ("https://private.test/v1", False, "private.test:443"),
        ("https://private.test/v1", True, "withheld"),
    ],
)
def test_a_host_that_the_provider_chooses_is_the_component_where_the_arm_names_none(base_url, redact, found):
    class Regional(ScriptedProvider):
        def wire_request(self, ask):
            return WireRequest("POST", "/ask", ask.prompt, host="runtime.eu-west-1.test")

    arm = Arm("t", "tracked", "bedrock", "m", base_url=base_url, redact=redact)
    assert asked_with(arm, Regional(lambda ask, times: Reply("4", "stop")))["host"] == found


def test_without_such_a_choice_the_host_is_the_provider_s_only_one():
    arm = Arm("t", "tracked", "openai", "m")
    assert asked_with(arm, ScriptedProvider(lambda ask, times: Reply("4", "stop")))["host"] == "default"
