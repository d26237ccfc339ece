"""Any OpenAI-compatible endpoint through the official SDK: Chat Completions, or Responses with options.api."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import httpx2
import openai

from canaryd.providers import openai_chat, openai_responses
from canaryd.providers.base import (
    Surroundings,
    WireRequest,
    bad_option,
    header_option,
    redactor_of,
    refuse_variables,
    required_secret,
    text_option,
)
from canaryd.providers.connection import address, client_settings
from canaryd.providers.sdk_post import answered
from canaryd.providers.secret import Secret
from canaryd.providers.wire import Redactor, reply_json, stream_events
from canaryd.records import Arm, Ask, JsonValue, Reply

PARAMS = frozenset({"max_tokens", "temperature", "top_p", "top_k", "seed", "effort", "response_format", "json_mode"})
OPTIONS = frozenset({"api", "auth", "cap_parameter", "extra_body", "organization", "project", "proxy", "stream"})
REFUSED_VARIABLES = (
    "OPENAI_BASE_URL",
    "OPENAI_CUSTOM_HEADERS",
    "OPENAI_LOG",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
)
BASE_URL = "https://api.openai.com/v1"
AUTHS = ("key", "none")


class Api(Protocol):
    """One of OpenAI's wire formats; its module is one."""

    PATH: str

    def wire_fields(self, arm: Arm) -> dict[str, JsonValue]:
        """Return the request parameters under their wire names."""

    def to_request(self, ask: Ask, *, model: str, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the body of one question."""

    def body_of_stream(self, events: Sequence[Any]) -> Any:
        """Return the body that the same reply would have had without a stream."""

    def from_response(self, body: Any, *, model: str, redactor: Redactor) -> Reply:
        """Return the reply of a body with status 200."""


APIS: Mapping[str, Api] = {"chat": openai_chat, "responses": openai_responses}


def build(arm: Arm, surroundings: Surroundings) -> OpenAIProvider:
    """Return the provider of an arm.

    Raises:
        ConfigError: a parameter cannot be sent as written, there is no key although one is sent (or one although none
            is), or the environment re-points the SDK.
    """
    refuse_variables(arm, surroundings.env, names=REFUSED_VARIABLES)
    return OpenAIProvider(arm, _sent_secret(arm, surroundings.secret))


class OpenAIProvider:
    """One long-lived client of the official SDK, its own retries and time limits off.

    Requests go through the SDK's generic `post`, which sends a body as it stands. The typed methods fill absent fields
    of a reply with None unseen, and take 1.7 times the processor time.
    """

    def __init__(self, arm: Arm, secret: Secret | None) -> None:
        self._arm = arm
        self._secret = secret
        self._address = address(arm, default=BASE_URL)
        self._api = APIS[text_option(arm, "api", allowed=APIS) or "chat"]
        self._streamed = openai_chat.streamed(arm)
        self._fields = self._api.wire_fields(arm)
        self._options: openai.RequestOptions = {} if secret else {"headers": {"Authorization": openai.Omit()}}
        self._client = openai.AsyncOpenAI(
            # The SDK insists on a key; where there is none, the header that would send this word is left out.
            api_key=secret.reveal() if secret else "none",
            base_url=self._address,
            organization=header_option(arm, "organization"),
            project=header_option(arm, "project"),
            max_retries=0,
            timeout=None,
            http_client=openai.DefaultAsyncHttpxClient(**client_settings(arm)),
        )

    async def ask(self, ask: Ask) -> Reply:
        """Return the reply to one question.

        Raises:
            ProviderError: there is no reply.
        """
        redactor = redactor_of(self._arm, ask, secrets=(self._secret,))
        body = self._body(ask)
        post = self._client.post(self._api.PATH, cast_to=httpx2.Response, body=body, options=self._options)
        response = await answered(post, sdk=openai, timeout_s=self._arm.timeout_s, redactor=redactor)
        said = response.content
        whole = self._api.body_of_stream(stream_events(said)) if self._streamed else reply_json(said)
        return self._api.from_response(whole, model=self._arm.model, redactor=redactor)

    def wire_request(self, ask: Ask) -> WireRequest:
        """Return the request that `ask` would send."""
        headers = {
            f"openai-{name}": value for name in ("organization", "project") if (value := text_option(self._arm, name))
        }
        path = self._address.path.rstrip("/") + self._api.PATH
        return WireRequest("POST", path, self._body(ask), headers)

    def tool_versions(self) -> Mapping[str, str]:
        """Return the SDK's version."""
        return {"openai": openai.__version__}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _body(self, ask: Ask) -> dict[str, JsonValue]:
        return self._api.to_request(ask, model=self._arm.model, fields=self._fields)


def _sent_secret(arm: Arm, secret: Secret | None) -> Secret | None:
    """Return the key to send, None where the arm says that its server asks for none."""
    if text_option(arm, "auth", allowed=AUTHS) != "none":
        return required_secret(arm, secret)
    if secret is not None:
        raise bad_option(arm, "auth", why=f"is 'none', but the arm has the credential {arm.credential!r}; keep one")
    return None
