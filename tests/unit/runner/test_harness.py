"""What an arm is asked with: a proxy is a component of the harness, and withheld with the address."""

from __future__ import annotations

import pytest

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
