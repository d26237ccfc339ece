"""The keys that a configuration needs: where each comes from, told without the key."""

from __future__ import annotations

import os
from collections.abc import Iterable

from canaryd.config import Config, SeriesConfig
from canaryd.errors import CredentialsError
from canaryd.providers.credentials import find_secret
from canaryd.providers.secret import Secret


def keys_of(config: Config, series: Iterable[SeriesConfig]) -> dict[str, Secret]:
    """Return the keys of the arms and of the webhook by name, without those that are missing, which their users say."""
    names = {arm.credential for one in series for arm in one.asked if arm.credential is not None}
    if config.service.webhook is not None:
        names.add(config.service.webhook.credential)
    found = {}
    for name in sorted(names):
        try:
            found[name] = find_secret(name, config.credentials, env=os.environ)
        except CredentialsError:
            continue
    return found


def key_warning(name: str, key: Secret) -> str | None:
    """Return what is wrong with the place that a key was found in, None where nothing is."""
    if not key.source.startswith("$"):
        return None
    return (
        f"the key {name!r} is taken from the environment ({key.source}), where every process of the user can read it; "
        "put it in a file and name that in [credentials], or pass --credentials-dir"
    )
