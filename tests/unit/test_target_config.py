"""The recorded configuration is a closed table of scalars: what differs is named, the unknown differs from nothing."""

from typing import Any

import pytest

from canaryd.errors import ConfigError
from canaryd.records import Arm
from canaryd.target_config import KEYS, checked, compare, not_comparable, recorded

BASE: dict[str, Any] = {"provider": "p", "model": "m"}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({**BASE, "prefill": "x"}, "configuration.prefill is not recorded; allowed: provider, model, max_tokens"),
        ({"model": "m"}, "configuration.provider is missing"),
        ({"provider": "p", "seed": 1}, "configuration.model is missing"),
        ({**BASE, "effort": {"level": 1}}, 'configuration.effort is {"level": 1}, but only a single value'),
    ],
)
def test_what_cannot_be_recorded_is_refused(record: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(record)
    assert str(caught.value).startswith(said)


def test_nothing_declared_is_nothing_recorded() -> None:
    assert checked({}) == {}


def test_null_is_never_stored_and_structures_are_reduced() -> None:
    record = {**BASE, "temperature": None, "response_format": {"type": "json_schema", "schema": {}}, "json_mode": "yes"}
    assert checked({**record, "base_url": "https://h/v1"}) == {
        **BASE,
        "base_url": "h:443",
        "response_format": "json_schema",
        "json_mode": True,
    }


def test_an_arm_is_recorded_without_what_is_not_listed() -> None:
    arm = Arm(
        "t",
        "tracked",
        "bedrock",
        "m",
        params={"max_tokens": 9},
        options={"region": "eu-1", "cap_parameter": "max_completion_tokens"},
    )
    assert recorded(arm) == {"provider": "bedrock", "model": "m", "max_tokens": 9, "region": "eu-1"}
    withheld = recorded(Arm("t", "tracked", "openai", "m", base_url="https://secret.example/v1", redact=True))
    assert withheld["base_url"] == "withheld"


def test_deltas_are_named_in_the_order_of_the_table() -> None:
    before = {**BASE, "seed": 1, "base_url": "a:443"}
    after = {**BASE, "model": "n", "temperature": 0.5, "base_url": "withheld"}
    assert [str(delta) for delta in compare(before, after)] == [
        "model: m -> n",
        "temperature: not sent -> 0.5",
        "seed: 1 -> not sent",
    ]
    assert not_comparable(before, after) == ("base_url",)


@pytest.mark.parametrize("missing", [None, {}])
def test_a_missing_record_is_unknown_in_every_field(missing: Any) -> None:
    assert compare(missing, BASE) == compare(BASE, missing) == ()
    assert not_comparable(missing, BASE) == KEYS
