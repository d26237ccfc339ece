"""What an arm is asked with: the components of its harness fingerprint."""

from __future__ import annotations

from datetime import date
from urllib.parse import urlsplit

from canaryd.fingerprint import Fingerprint, fingerprint_of
from canaryd.hashing import canonical_json
from canaryd.panel import Panel
from canaryd.providers.base import Provider
from canaryd.records import Arm, Ask, JsonValue

_ANY_DAY = date(1970, 1, 1)


def arm_fingerprint(arm: Arm, panel: Panel, provider: Provider) -> Fingerprint:
    """Return the harness fingerprint of an arm: panel, graders, system prompt, wire request, host and tool versions.

    The wire request is the canonical one: as it is really sent, with a placeholder for the prompt.
    """
    wire = provider.wire_request(Ask("{series}", arm.name, _ANY_DAY, "{item}", 0, panel.system, "{prompt}"))
    request: JsonValue = {
        "method": wire.method,
        "path": wire.path,
        "headers": dict(wire.headers),
        "body": wire.body,
    }
    host = urlsplit(arm.base_url).netloc if arm.base_url else "default"
    components = {
        "panel": panel.digest.encode(),
        "system": panel.system.encode(),
        "request": canonical_json(request),
        "host": host.encode(),
        **{f"grader {name}": version.encode() for name, version in panel.lock.graders.items()},
        **{f"tool {name}": version.encode() for name, version in provider.tool_versions().items()},
    }
    return fingerprint_of(components)
