"""Amazon Bedrock's Converse through boto3: a model id, an inference profile or an ARN."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

import boto3
import botocore.config
import botocore.exceptions as aws

from canaryd.errors import ConfigError, CredentialsError
from canaryd.providers.base import (
    ProviderError,
    Surroundings,
    WireRequest,
    redactor_of,
    refuse_variables,
    text_option,
    timed_out,
    with_extra_body,
)
from canaryd.providers.secret import Secret
from canaryd.providers.wire import Redactor, at, kind_of_status, refuse_cached, retry_after_s, text_at, tokens_at
from canaryd.records import Arm, Ask, JsonValue, Reply, StopKind

PARAMS = frozenset({"max_tokens", "temperature", "top_p"})
OPTIONS = frozenset({"region", "extra_body"})
REFUSED_VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME")
_WIRE_NAMES = {"max_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP"}
_STOP: Mapping[Any, StopKind] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
}
#: Where a service's error name says more than its status.
_KIND_OF_NAME = {
    "ExpiredTokenException": "auth",
    "InvalidSignatureException": "auth",
    "ModelErrorException": "server_error",
    "ModelNotReadyException": "overloaded",
    "ServiceQuotaExceededException": "quota",
    "UnrecognizedClientException": "auth",
}


def build(arm: Arm, surroundings: Surroundings) -> BedrockProvider:
    """Return the provider of an arm; without a credential AWS's own chain finds the keys (a role, a shared file).

    Raises:
        ConfigError: the region is missing, a parameter cannot be sent, or the environment re-points the SDK.
        CredentialsError: the credential is not of the form ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN].
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
        keys = _keys(secret)
        self._secrets = list(keys.values())
        region = text_option(arm, "region")
        if region is None:
            raise ConfigError(f"arm {arm.name!r}: Bedrock is regional, and no region is named; set options.region")
        session = boto3.Session(region_name=region, **{name: key.reveal() for name, key in keys.items()})
        try:
            self._client = session.client("bedrock-runtime", endpoint_url=arm.base_url, config=_limits(arm))
        except aws.InvalidRegionError:
            raise ConfigError(
                f"arm {arm.name!r}: options.region is {region!r}, which is no name of a region; "
                "write one such as us-east-1"
            ) from None

    async def ask(self, ask: Ask) -> Reply:
        """Return the reply to one question.

        Raises:
            ProviderError: there is no reply.
        """
        redactor = redactor_of(self._arm, ask, secrets=self._secrets)
        try:
            async with asyncio.timeout(self._arm.timeout_s):
                body = await in_thread(partial(self._client.converse, modelId=self._arm.model, **self._body(ask)))
        except (TimeoutError, aws.ReadTimeoutError, aws.ConnectTimeoutError):
            failure = timed_out(self._arm.timeout_s)
        except aws.ClientError as error:
            failure = failure_of_client_error(error.response, redactor=redactor)
        except aws.BotoCoreError as error:
            failure = ProviderError(_kind_of_fault(error), redactor(f"{type(error).__name__}: {error}"))
        else:
            refuse_cached(at(body, "ResponseMetadata", "HTTPHeaders") or {})
            return from_response(body, redactor=redactor)
        # Raised outside of the handlers, so that no exception of the SDK hangs on ours.
        raise failure

    def wire_request(self, ask: Ask) -> WireRequest:
        """Return the request that `ask` would send."""
        return WireRequest("POST", f"/model/{quote(self._arm.model, safe='')}/converse", self._body(ask))

    def tool_versions(self) -> Mapping[str, str]:
        """Return the SDK's versions."""
        return {"boto3": boto3.__version__, "botocore": botocore.__version__}

    async def aclose(self) -> None:
        """Close the connections."""
        self._client.close()

    def _body(self, ask: Ask) -> dict[str, JsonValue]:
        return to_request(ask, fields=self._fields)


def wire_fields(arm: Arm) -> dict[str, JsonValue]:
    """Return the request parameters that are set, under their wire names; extra_body goes to the model as it stands.

    Raises:
        ConfigError: extra_body is no table.
    """
    config: dict[str, JsonValue] = {_WIRE_NAMES[name]: value for name, value in arm.params.items()}
    extra = with_extra_body(arm, {}, structural=())
    parts: dict[str, JsonValue] = {"inferenceConfig": config, "additionalModelRequestFields": extra}
    return {name: part for name, part in parts.items() if part}


def to_request(ask: Ask, *, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the body of one question; an empty system prompt is not sent."""
    system: dict[str, JsonValue] = {"system": [{"text": ask.system}]} if ask.system else {}
    return {"messages": [{"role": "user", "content": [{"text": ask.prompt}]}], **system, **fields}


def from_response(body: Any, *, redactor: Redactor) -> Reply:
    """Return the reply of a Converse result; reasoning is no text, and no result names the model that answered.

    Raises:
        ProviderError: nothing that could be graded (`malformed`).
    """
    content = at(body, "output", "message", "content")
    reason = at(body, "stopReason")
    usage = at(body, "usage")
    counts = [tokens_at(usage, name) for name in ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")]
    input_tokens = None if counts[0] is None else sum(count or 0 for count in counts)
    output_tokens = tokens_at(usage, "outputTokens") or None
    if reason not in _STOP or not isinstance(content, list):
        raise ProviderError(
            "server_error" if reason is None else "malformed",  # botocore passes on a body that is no JSON as empty
            redactor(f"no message with a known stop reason, but {reason!r}"),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        )
    return Reply(
        text="".join(text_at(block, "text") or "" for block in content),
        stop=_STOP[reason],
        response_id=text_at(body, "ResponseMetadata", "RequestId"),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def failure_of_client_error(response: Any, *, redactor: Redactor) -> ProviderError:
    """Return the error of a reply whose status is no success, as botocore holds it."""
    status, name = at(response, "ResponseMetadata", "HTTPStatusCode"), text_at(response, "Error", "Code") or ""
    kind = _KIND_OF_NAME.get(name) or kind_of_status(status if isinstance(status, int) else None)
    message = text_at(response, "Error", "Message") or ""
    headers = at(response, "ResponseMetadata", "HTTPHeaders") or {}
    return ProviderError(kind, redactor(f"HTTP {status} {name}: {message}"), retry_after_s=retry_after_s(headers))


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


def _limits(arm: Arm) -> botocore.config.Config:
    return botocore.config.Config(
        connect_timeout=arm.timeout_s,
        read_timeout=arm.timeout_s,
        retries={"total_max_attempts": 1},
        max_pool_connections=arm.concurrency,
        ignore_configured_endpoint_urls=True,
    )


def _keys(secret: Secret | None) -> dict[str, Secret]:
    if secret is None:
        return {}
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    parts = secret.reveal().split(":", 2)
    if len(parts) < 2 or not all(parts):
        raise CredentialsError(
            f"{secret.source}: the credential of a bedrock arm must read ACCESS_KEY_ID:SECRET_ACCESS_KEY, with "
            ":SESSION_TOKEN behind it for temporary keys"
        )
    return {name: Secret(part, source=secret.source) for name, part in zip(names, parts, strict=False)}


def _kind_of_fault(error: aws.BotoCoreError) -> str:
    """Return the kind of a fault that is no reply of the service."""
    if isinstance(error, (aws.HTTPClientError, aws.ConnectionError)):
        return "connection"
    if isinstance(error, aws.NoCredentialsError | aws.PartialCredentialsError | aws.CredentialRetrievalError):
        return "auth"
    return "bad_request" if isinstance(error, aws.ParamValidationError) else "server_error"
