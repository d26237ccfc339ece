"""What an arm is asked with: the components of its harness fingerprint."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import date

from canaryd import __version__
from canaryd.delta import WITHHELD
from canaryd.fingerprint import JUDGE, REQUEST, TOOL, Fingerprint
from canaryd.graders.judge import TOLD_DIGEST
from canaryd.hashing import canonical_json, digest
from canaryd.judging import JudgeConfig
from canaryd.panel import Panel
from canaryd.providers.base import Provider, proxy_of
from canaryd.records import Arm, Ask, JsonValue
from canaryd.target_config import host_of

_ANY_DAY = date(1970, 1, 1)


def surroundings() -> dict[str, str]:
    """Return what a run is measured with and on: recorded, and no part of the fingerprint."""
    return {
        "canaryd": __version__,
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "host": platform.node(),
    }


def arm_fingerprint(
    arm: Arm, panel: Panel, *, provider: Provider, due_minute: int, beside: Mapping[str, str]
) -> Fingerprint:
    """Return the harness fingerprint of an arm.

    The wire request is the canonical one: as it is really sent, with placeholders for the prompt and the system prompt,
    which is a component of its own. `due_minute` is the run's time of day, in minutes after 00:00 UTC; `beside` holds
    the components of what every arm shares: the sandbox and the judge, where an item needs them.
    """
    return Fingerprint(
        {
            "panel": panel.digest,
            "system": digest(panel.system.encode()),
            **asked_with(arm, provider),
            "time of day": f"{due_minute // 60:02}:{due_minute % 60:02} UTC",
            **{f"grader {name}": version for name, version in panel.lock.graders.items()},
            **beside,
        }
    )


def judge_components(judge: JudgeConfig, provider: Provider, *, anchors: str) -> dict[str, str]:
    """Return the components of a judge: who it is, what it is asked with, what it is told, and its anchors' digest."""
    named = {
        "identity": judge.identity,
        "family": judge.family,
        "told": TOLD_DIGEST,
        "anchors": anchors,
        **asked_with(judge.arm, provider),
    }
    return {f"{JUDGE}{name}": value for name, value in named.items()}


def asked_with(arm: Arm, provider: Provider) -> dict[str, str]:
    """Return the canonical wire request, the host, a proxy and the tools that an arm, or a judge, is asked with."""
    wire = provider.wire_request(Ask("{series}", arm.name, _ANY_DAY, "{item}", 0, "{system}", "{prompt}"))
    request: JsonValue = {
        "method": wire.method,
        "path": wire.path,
        "headers": dict(wire.headers),
        "body": wire.body,
    }
    return {
        REQUEST: canonical_json(request).decode(),
        "host": _host(arm, chosen=wire.host),
        **_proxy(arm),
        **{f"{TOOL}{name}": version for name, version in provider.tool_versions().items()},
    }


def _proxy(arm: Arm) -> dict[str, str]:
    """Return the component of the proxy that an arm's requests go through, none where they go straight."""
    proxy = proxy_of(arm)
    return {} if proxy is None else {"proxy": WITHHELD if arm.redact else host_of(proxy)}


def _host(arm: Arm, *, chosen: str | None) -> str:
    """Return the host of base_url, withheld where it is private, and without one the host that the provider chooses."""
    if arm.base_url is None:
        return chosen or "default"
    return WITHHELD if arm.redact else host_of(arm.base_url)
