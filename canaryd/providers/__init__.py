"""The providers: one table from a name in the configuration to the module that builds it."""

from __future__ import annotations

import math
from collections.abc import Collection
from importlib import import_module
from types import MappingProxyType

from canaryd.errors import ConfigError
from canaryd.providers.base import Provider, Surroundings
from canaryd.records import Arm

#: Each module is imported when a series uses it, so that no other SDK is loaded. It has `PARAMS` and `OPTIONS` (the
#: keys that it sends or obeys) and `build(arm, surroundings)`.
PROVIDERS = MappingProxyType(
    {
        "anthropic": "canaryd.providers.anthropic",
        "bedrock": "canaryd.providers.bedrock",
        "claude_cli": "canaryd.providers.claude_cli",
        "http": "canaryd.providers.http",
        "openai": "canaryd.providers.openai",
        "simulated": "canaryd.providers.simulated",
    }
)


def build_provider(arm: Arm, surroundings: Surroundings) -> Provider:
    """Return the provider of an arm, ready to be asked.

    Raises:
        ConfigError: the provider is unknown or not installed, a parameter or option is none of its own, the timeout is
            no limit, or the provider itself refuses the arm.
    """
    _refuse_unknown(arm, "provider", "", names=[arm.provider], allowed=PROVIDERS)
    if not (arm.timeout_s and 0 < arm.timeout_s < math.inf):
        raise ConfigError(
            f"arm {arm.name!r}: timeout_s is {arm.timeout_s!r}, which is no limit; "
            "write the seconds that one attempt may take in all"
        )
    try:
        module = import_module(PROVIDERS[arm.provider])
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"arm {arm.name!r}: provider {arm.provider!r} needs the package {error.name!r}, which is not installed; "
            f"install canaryd[{arm.provider}]"
        ) from None
    _refuse_unknown(arm, "parameter", "params.", names=arm.params, allowed=module.PARAMS)
    _refuse_unknown(arm, "option", "options.", names=arm.options, allowed=module.OPTIONS)
    provider: Provider = module.build(arm, surroundings)
    return provider


def _refuse_unknown(arm: Arm, what: str, prefix: str, *, names: Collection[str], allowed: Collection[str]) -> None:
    for name in names:
        if name not in allowed:
            owner = f"provider {arm.provider!r} has no {what}" if prefix else f"there is no {what}"
            raise ConfigError(
                f"arm {arm.name!r}: {owner} {prefix}{name}; allowed: {', '.join(sorted(allowed)) or 'none'}"
            )
