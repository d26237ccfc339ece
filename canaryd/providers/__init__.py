"""The providers: one table from a name in the configuration to the module that builds it."""

from __future__ import annotations

import math
from collections.abc import Collection
from importlib import import_module
from types import MappingProxyType

from canaryd.errors import ConfigError
from canaryd.providers.base import Provider, Surroundings
from canaryd.providers.discreet import discreet
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
    if arm.provider not in PROVIDERS:
        raise _unknown(arm, f"there is no provider {arm.provider}", allowed=PROVIDERS)
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
    for table, given, allowed in (("params", arm.params, module.PARAMS), ("options", arm.options, module.OPTIONS)):
        for name in given:
            if name not in allowed:
                raise _unknown(arm, f"provider {arm.provider!r} has no {table}.{name}", allowed=allowed)
    provider: Provider = module.build(arm, surroundings)
    return discreet(provider, surroundings.secret)


def _unknown(arm: Arm, what: str, *, allowed: Collection[str]) -> ConfigError:
    return ConfigError(f"arm {arm.name!r}: {what}; allowed: {', '.join(sorted(allowed)) or 'none'}")
