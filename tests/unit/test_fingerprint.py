"""The harness fingerprint: one component of each kind changed, and what is said of it."""

import json
from typing import Any

import pytest

from canaryd.fingerprint import Fingerprint, differences, only_tools, unknown

REQUEST = {"method": "POST", "path": "/v1", "headers": {}, "body": {"model": "m", "messages": [{"role": "system"}]}}
OLD = {"panel": "sha256:1", "host": "h:443", "request": json.dumps(REQUEST), "tool openai": "3.57.0"}


def said(**changes: Any) -> list[str]:
    new = {name: value for name, value in {**OLD, **changes}.items() if value is not None}
    return [str(delta) for delta in differences(Fingerprint(OLD), Fingerprint(new))]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"panel": "sha256:2"}, ["panel: sha256:1… -> sha256:2…"]),
        ({"host": "i:443"}, ["host: h:443 -> i:443"]),
        ({"host": "withheld"}, []),
        ({"tool openai": None}, ["tool openai: 3.57.0 -> absent"]),
        ({"tool claude": "2.1"}, ["tool claude: absent -> 2.1"]),
        (
            {"request": json.dumps({**REQUEST, "body": {"model": "n", "messages": [{"role": "user"}], "seed": 3}})},
            [
                "request.body.messages.0.role: system -> user",
                "request.body.model: m -> n",
                "request.body.seed: absent -> 3",
            ],
        ),
    ],
)
def test_differences_are_named(changes: dict[str, Any], expected: list[str]) -> None:
    assert said(**changes) == expected


def test_equal_components_are_one_digest_whatever_their_order() -> None:
    assert Fingerprint(OLD).digest == Fingerprint(dict(reversed(OLD.items()))).digest
    assert Fingerprint(OLD).digest != Fingerprint({**OLD, "host": "i:443"}).digest


def test_only_versions_of_tools_can_be_equivalent() -> None:
    newer = Fingerprint({**OLD, "tool openai": "3.58.0"})
    assert only_tools(differences(Fingerprint(OLD), newer))
    assert not only_tools(differences(Fingerprint(OLD), Fingerprint({**newer.components, "host": "i:443"})))


def test_what_is_withheld_is_listed_as_unknown() -> None:
    assert unknown(Fingerprint(OLD), Fingerprint({**OLD, "host": "withheld"})) == ("host",)
