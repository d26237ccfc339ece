"""The keys that a Bedrock arm signs with: those of its credential, or those that AWS's own chain finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3
import botocore.exceptions as aws

from canaryd.errors import CanarydError, ConfigError, CredentialsError
from canaryd.providers.secret import Secret
from canaryd.records import Arm

_NAMES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def keys_of(secret: Secret | None) -> Mapping[str, Secret]:
    """Return the parts of an arm's credential by the names of a boto3 session, none where it has no credential.

    Raises:
        CredentialsError: it is not of the form ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN].
    """
    if secret is None:
        return {}
    parts = secret.reveal().split(":", 2)
    if len(parts) < 2 or not all(parts):
        raise CredentialsError(
            f"{secret.source}: the credential of a bedrock arm must read ACCESS_KEY_ID:SECRET_ACCESS_KEY, with "
            ":SESSION_TOKEN behind it for temporary keys"
        )
    return {name: Secret(part, source=secret.source) for name, part in zip(_NAMES, parts, strict=False)}


def session_of(arm: Arm, *, region: str, keys: Mapping[str, Secret]) -> tuple[boto3.Session, Any]:
    """Return a session in a region and botocore's credentials, which hold the keys and may fetch them when asked.

    Raises:
        ConfigError: AWS's shared files cannot be read, or AWS_PROFILE names no profile that they make sense of.
        CredentialsError: AWS's own chain finds no key, or breaks on the way to one.
    """
    problem: CanarydError
    try:
        session = boto3.Session(region_name=region, **{name: key.reveal() for name, key in keys.items()})
        credentials = session.get_credentials()
    except (aws.ProfileNotFound, aws.ConfigParseError, aws.InvalidConfigError) as error:
        problem = ConfigError(
            f"arm {arm.name!r}: AWS's shared files cannot be used as they are ({error}); mend them, or AWS_PROFILE"
        )
    except (aws.BotoCoreError, OSError, ValueError) as error:
        # What a program prints that should print keys may hold some, so that only the kind of the fault is told.
        problem = CredentialsError(
            f"arm {arm.name!r}: AWS's own chain breaks on the way to a key ({type(error).__name__}); mend the profile "
            'and its credential_process, or name a key with credential = "NAME"'
        )
    else:
        if credentials is not None:
            return session, credentials
        problem = CredentialsError(
            f"arm {arm.name!r}: AWS's own chain finds no key, and no other was given; set up a profile or a role, or "
            'name a key with credential = "NAME"'
        )
    # Raised outside of the handlers: an error of JSON carries the text that it was made of.
    raise problem


def keys_in_force(credentials: Any) -> list[Secret]:
    """Return each key that botocore signs with now; those of a role or a program are fetched where they are due.

    Raises:
        botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError: they cannot be fetched.
    """
    try:
        frozen = credentials.get_frozen_credentials()
        parts = (frozen.access_key, frozen.secret_key, frozen.token)
        return [Secret(part.strip(), source="AWS's own chain") for part in parts if part]
    except (OSError, ValueError, CredentialsError) as error:
        fault = type(error).__name__
    raise aws.CredentialRetrievalError(provider="AWS's own chain", error_msg=fault)
