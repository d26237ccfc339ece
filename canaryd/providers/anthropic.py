"""Anthropic's Messages API through the official SDK, always streamed, so that long outputs are allowed."""

from __future__ import annotations

from collections.abc import Mapping

import anthropic
import httpx2

from canaryd.providers.anthropic_messages import PATH, from_events, to_request, wire_fields
from canaryd.providers.base import (
    Surroundings,
    WireRequest,
    bad_option,
    header_option,
    is_header_value,
    redactor_of,
    refuse_variables,
    required_secret,
)
from canaryd.providers.connection import address, client_settings
from canaryd.providers.sdk_post import answered
from canaryd.providers.secret import Secret
from canaryd.providers.wire import stream_events
from canaryd.records import Arm, Ask, JsonValue, Reply

PARAMS = frozenset({"max_tokens", "temperature", "top_p", "top_k", "effort"})
OPTIONS = frozenset({"api_version", "betas", "thinking", "extra_body", "proxy"})
REFUSED_VARIABLES = ("ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_LOG")
BASE_URL = "https://api.anthropic.com"


def build(arm: Arm, surroundings: Surroundings) -> AnthropicProvider:
    """Return the provider of an arm.

    Raises:
        ConfigError: a parameter cannot be sent as written, there is no key, or the environment re-points the SDK.
    """
    refuse_variables(arm, surroundings.env, names=REFUSED_VARIABLES)
    return AnthropicProvider(arm, required_secret(arm, surroundings.secret))


class AnthropicProvider:
    """One long-lived client of the official SDK, its own retries and time limits off.

    The event stream is read to its end before any of it is looked at, so that a partial text cannot become a reply.
    """

    def __init__(self, arm: Arm, secret: Secret) -> None:
        self._arm = arm
        self._secret = secret
        self._address = address(arm, default=BASE_URL)
        self._fields = wire_fields(arm)
        self._client = anthropic.AsyncAnthropic(
            api_key=secret.reveal(),
            base_url=self._address,
            max_retries=0,
            timeout=None,
            default_headers=_headers(arm),
            http_client=anthropic.DefaultAsyncHttpxClient(**client_settings(arm)),
        )

    async def ask(self, ask: Ask) -> Reply:
        """Return the reply to one question.

        Raises:
            ProviderError: there is no reply.
        """
        redactor = redactor_of(self._arm, ask, secrets=(self._secret,))
        post = self._client.post(PATH, cast_to=httpx2.Response, body=self._body(ask))
        response = await answered(post, sdk=anthropic, timeout_s=self._arm.timeout_s, redactor=redactor)
        return from_events(stream_events(response.content), model=self._arm.model, redactor=redactor)

    def wire_request(self, ask: Ask) -> WireRequest:
        """Return the request that `ask` would send; the API version is in it, also where the SDK chose it."""
        path = self._address.path.rstrip("/") + PATH
        sent = self._client.default_headers
        names: tuple[str, ...] = ("anthropic-version", "anthropic-beta")
        headers = {name: str(sent[name]) for name in names if name in sent}
        return WireRequest("POST", path, self._body(ask), headers)

    def tool_versions(self) -> Mapping[str, str]:
        """Return the SDK's version."""
        return {"anthropic": anthropic.__version__}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _body(self, ask: Ask) -> dict[str, JsonValue]:
        return to_request(ask, model=self._arm.model, fields=self._fields)


def _headers(arm: Arm) -> dict[str, str]:
    """Return the headers that the arm's options set."""
    headers = {}
    if version := header_option(arm, "api_version"):
        headers["anthropic-version"] = version
    betas = arm.options.get("betas", [])
    if not isinstance(betas, list) or not all(isinstance(beta, str) and is_header_value(beta) for beta in betas):
        raise bad_option(arm, "betas", why=f"is {betas!r}, but must be a list of names, as it is sent in a header")
    if betas:
        headers["anthropic-beta"] = ",".join(map(str, betas))
    return headers
