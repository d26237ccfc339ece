"""Amazon Bedrock's Converse through boto3: a model id, an inference profile or an ARN."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

import boto3
import botocore.config
import botocore.exceptions as aws

from canaryd.errors import ConfigError
from canaryd.providers.base import (
    ProviderError,
    Surroundings,
    WireRequest,
    proxy_of,
    redactor_of,
    refuse_variables,
    text_option,
    timed_out,
)
from canaryd.providers.bedrock_converse import (
    failure_of_client_error,
    from_response,
    keep_body,
    to_request,
    wire_fields,
)
from canaryd.providers.bedrock_keys import keys_in_force, keys_of, session_of
from canaryd.providers.cached import refuse_cached
from canaryd.providers.secret import Secret
from canaryd.providers.wire import at
from canaryd.records import Arm, Ask, JsonValue, Reply

PARAMS = frozenset({"max_tokens", "temperature", "top_p"})
OPTIONS = frozenset({"region", "extra_body", "proxy"})
REFUSED_VARIABLES = (
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_USE_FIPS_ENDPOINT",
)
#: What botocore raises where AWS's own chain has no key, or none any more.
_NO_KEY = (
    aws.CredentialRetrievalError,
    aws.InvalidConfigError,
    aws.LoginError,
    aws.NoCredentialsError,
    aws.PartialCredentialsError,
    aws.SSOError,
    aws.TokenRetrievalError,
)


def build(arm: Arm, surroundings: Surroundings) -> BedrockProvider:
    """Return the provider of an arm; without a credential AWS's own chain finds the keys (a role, a shared file).

    Raises:
        ConfigError: the region is missing, a parameter cannot be sent, the environment re-points the SDK, or AWS's
            shared files cannot be read.
        CredentialsError: the credential is not of the form ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN], or there is
            none and AWS's own chain finds no key.
    """
    refuse_variables(arm, surroundings.env, names=REFUSED_VARIABLES)
    return BedrockProvider(arm, surroundings.secret)


class BedrockProvider:
    """One boto3 client, retries off; boto3 knows no asyncio, so each call has a thread of its own.

    The threads are daemons: one that a dripping server keeps busy past its deadline cannot hold up the process's end.
    """

    def __init__(self, arm: Arm, secret: Secret | None) -> None:
        self._arm = arm
        self._fields = wire_fields(arm)
        region = text_option(arm, "region")
        if region is None:
            raise ConfigError(f"arm {arm.name!r}: Bedrock is regional, and no region is named; set options.region")
        keys = keys_of(secret)
        self._secrets = list(keys.values())
        session, self._credentials = session_of(arm, region=region, keys=keys)
        self._client = _client(arm, session, region=region)
        self._client.meta.events.register("before-parse.bedrock-runtime.Converse", keep_body)

    async def ask(self, ask: Ask) -> Reply:
        """Return the reply to one question.

        Raises:
            ProviderError: there is no reply.
        """
        # The list grows while the call is made, before anything of it can be told.
        redactor = redactor_of(self._arm, ask, secrets=self._secrets)
        try:
            async with asyncio.timeout(self._arm.timeout_s):
                response = await in_thread(partial(self._converse, self._body(ask)))
        except (TimeoutError, aws.ReadTimeoutError, aws.ConnectTimeoutError):
            failure = timed_out(self._arm.timeout_s)
        except aws.ClientError as error:
            failure = failure_of_client_error(error.response, redactor=redactor)
        except aws.BotoCoreError as error:
            failure = ProviderError(_kind_of_fault(error), redactor(f"{type(error).__name__}: {error}"))
        else:
            refuse_cached(at(response, "ResponseMetadata", "HTTPHeaders") or {})
            return from_response(response, redactor=redactor)
        # Raised outside of the handlers, so that no exception of the SDK hangs on ours.
        raise failure

    def secrets(self) -> Collection[Secret]:
        """Return every part of the credential by itself, and every key of AWS's own chain that has signed."""
        return self._secrets

    def wire_request(self, ask: Ask) -> WireRequest:
        """Return the request that `ask` would send; without base_url the region chooses the host."""
        endpoint = urlsplit(self._client.meta.endpoint_url)
        path = f"{endpoint.path.rstrip('/')}/model/{quote(self._arm.model, safe='')}/converse"
        return WireRequest("POST", path, self._body(ask), host=None if self._arm.base_url else endpoint.hostname)

    def tool_versions(self) -> Mapping[str, str]:
        """Return the SDK's versions."""
        return {"boto3": boto3.__version__, "botocore": botocore.__version__}

    async def aclose(self) -> None:
        """Close the connections."""
        self._client.close()

    def _body(self, ask: Ask) -> dict[str, JsonValue]:
        return to_request(ask, fields=self._fields)

    def _converse(self, body: Mapping[str, JsonValue]) -> Any:
        self._secrets += [key for key in keys_in_force(self._credentials) if key not in self._secrets]
        return self._client.converse(modelId=self._arm.model, **body)


async def in_thread(call: Callable[[], Any]) -> Any:
    """Return what `call` returns or raise what boto3 raises; it runs in a daemon thread, let go on cancellation."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def deliver(result: Any, error: Exception | None) -> None:
        """Settle the future, in the loop's own thread."""
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        """Make the call, in the thread of its own."""
        result = None
        outcome: Exception | None = RuntimeError("the call ended in a way that boto3 does not document")
        try:
            result, outcome = call(), None
        except (aws.BotoCoreError, aws.ClientError) as error:
            outcome = error
        finally:
            with suppress(RuntimeError):  # the loop has ended before a call that was let go
                loop.call_soon_threadsafe(deliver, result, outcome)

    threading.Thread(target=run, daemon=True).start()
    return await future


def _client(arm: Arm, session: boto3.Session, *, region: str) -> Any:
    """Return the client of an arm.

    Raises:
        ConfigError: boto3 takes the region for no name of one, or base_url for no address, or the proxy is none.
    """
    proxy = proxy_of(arm)
    config = botocore.config.Config(
        connect_timeout=arm.timeout_s,
        read_timeout=arm.timeout_s,
        retries={"total_max_attempts": 1},
        max_pool_connections=arm.concurrency,
        # An empty table, unlike none, keeps out the proxies of the environment.
        proxies={} if proxy is None else {"http": proxy, "https": proxy},
        # What the shared files say of these would re-point the requests.
        ignore_configured_endpoint_urls=True,
        use_dualstack_endpoint=False,
        use_fips_endpoint=False,
    )
    try:
        return session.client("bedrock-runtime", endpoint_url=arm.base_url, config=config)
    except aws.InvalidRegionError:
        raise ConfigError(
            f"arm {arm.name!r}: options.region is {region!r}, which is no name of a region; write one such as us-east-1"
        ) from None
    except ValueError:
        raise ConfigError(
            f"arm {arm.name!r}: base_url is no address that boto3 can use; mend its host, or leave it out"
        ) from None


def _kind_of_fault(error: aws.BotoCoreError) -> str:
    """Return the kind of a fault that is no reply of the service."""
    if isinstance(error, (aws.HTTPClientError, aws.ConnectionError)):
        return "connection"
    if isinstance(error, _NO_KEY):
        return "auth"
    return "bad_request" if isinstance(error, aws.ParamValidationError) else "server_error"
