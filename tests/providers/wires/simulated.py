"""The simulated provider's misbehaviour: each fault at a rate of 1."""

from __future__ import annotations

from typing import Any

PROVIDER = "simulated"
CASES: dict[str, dict[str, int]] = {
    "good": {},
    "no usage": {"no_usage": 1},
    "echo": {},
    "refusal": {"refusal": 1},
    "content filter": {"content_filtered": 1},
    "truncated": {"truncated": 1},
    "empty": {"empty": 1},
    "malformed": {"malformed": 1},
    "rate limited": {"rate_limited": 1},
    "quota": {"quota": 1},
    "overloaded": {"overloaded": 1},
    "server error": {"server_error": 1},
    "auth": {"auth": 1},
    "not found": {"not_found": 1},
    "bad request": {"bad_request": 1},
    "stall": {"timeout": 1},
    "reset": {"connection": 1},
}


def arrange(case: str, **_: Any) -> dict[str, Any]:
    return {"options": {"faults": CASES[case], "abilities": {"i-1": 1.0}}}
