"""What an arm is asked with: the components of its harness fingerprint."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from canaryd.delta import WITHHELD
from canaryd.fingerprint import REQUEST, TOOL, Fingerprint
from canaryd.hashing import canonical_json, digest
from canaryd.panel import Panel
from canaryd.providers.base import Provider
from canaryd.records import Arm, Ask, JsonValue
from canaryd.target_config import host_of

_ANY_DAY = date(1970, 1, 1)


def arm_fingerprint(
    arm: Arm, panel: Panel, *, provider: Provider, due_minute: int, sandbox: Mapping[str, str]
) -> Fingerprint:
    """Return the harness fingerprint of an arm.

    The wire request is the canonical one: as it is really sent, with placeholders for the prompt and the system prompt,
    which is a component of its own. `due_minute` is the run's time of day, in minutes after 00:00 UTC; `sandbox` holds
    the components of the sandbox where an item needs it.
    """
    wire = provider.wire_request(Ask("{series}", arm.name, _ANY_DAY, "{item}", 0, "{system}", "{prompt}"))
    request: JsonValue = {
        "method": wire.method,
        "path": wire.path,
        "headers": dict(wire.headers),
        "body": wire.body,
    }
    return Fingerprint(
        {
            "panel": panel.digest,
            "system": digest(panel.system.encode()),
            REQUEST: canonical_json(request).decode(),
            "host": _host(arm),
            "time of day": f"{due_minute // 60:02}:{due_minute % 60:02} UTC",
            **{f"grader {name}": version for name, version in panel.lock.graders.items()},
            **{f"{TOOL}{name}": version for name, version in provider.tool_versions().items()},
            **{f"sandbox {name}": value for name, value in sandbox.items()},
        }
    )


def _host(arm: Arm) -> str:
    if arm.base_url is None:
        return "default"
    return WITHHELD if arm.redact else host_of(arm.base_url)
