"""How clients that are built on httpx2 reach a server: the address, the proxy, and nothing of the environment."""

from __future__ import annotations

from typing import Any

import httpx2

from canaryd.errors import ConfigError
from canaryd.providers.base import proxy_of
from canaryd.records import Arm


def address(arm: Arm, *, default: str) -> httpx2.URL:
    """Return the address that an arm's requests go to, below which its paths lie.

    Raises:
        ConfigError: it is none that could be connected to; the address is not repeated.
    """
    try:
        return httpx2.URL(arm.base_url or default)
    except httpx2.InvalidURL:
        pass
    raise ConfigError(f"arm {arm.name!r}: base_url is no address that can be connected to; mend its host")


def client_settings(arm: Arm) -> dict[str, Any]:
    """Return how a client is built: no time limit and no redirects of its own, and no proxy of the environment.

    The certificates that the environment names ($SSL_CERT_FILE) are still trusted.

    Raises:
        ConfigError: options.proxy is no address of a proxy.
    """
    return {
        "timeout": None,
        "follow_redirects": False,
        "trust_env": False,
        "verify": httpx2.create_ssl_context(),
        "proxy": proxy_of(arm),
    }
