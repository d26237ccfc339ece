"""The keys that the daemon will need, looked for before they are needed."""

from __future__ import annotations

import os

from canaryd.config import Config
from canaryd.errors import CanarydError, CredentialsError
from canaryd.providers.credentials import find_secret


def key_problems(config: Config) -> list[str]:
    """Return a sentence for each key that the arms or the webhook name and that cannot be used, as `config check` does.

    No key is kept.
    """
    from canaryd.webhook.deliver import receiver_of

    problems = []
    for name in sorted({arm.credential for one in config.series for arm in one.asked if arm.credential is not None}):
        try:
            find_secret(name, config.credentials, env=os.environ)
        except CredentialsError as error:
            problems.append(str(error))
    if config.service.webhook is not None:
        try:
            receiver_of(config)
        except CanarydError as error:
            problems.append(str(error))
    return problems
