"""Any application that answers a JSON request with a JSON reply."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

import httpx2

from canaryd.errors import ConfigError
from canaryd.providers.base import (
    ProviderError,
    Surroundings,
    WireRequest,
    bad_option,
    is_header_value,
    redactor_of,
    text_option,
    timed_out,
)
from canaryd.providers.cached import refuse_cached
from canaryd.providers.connection import address, client_settings
from canaryd.providers.http_format import format_of, from_response, to_request
from canaryd.providers.http_report import checked_report, refuse_difference
from canaryd.providers.secret import Secret
from canaryd.providers.wire import Redactor, at, failure_of_status, reply_json
from canaryd.records import Arm, Ask, JsonValue, Reply

PARAMS: frozenset[str] = frozenset()
OPTIONS = frozenset(
    {
        "url",
        "request",
        "headers",
        "auth_header",
        "output_path",
        "usage",
        "stop_path",
        "stop_reasons",
        "model_path",
        "id_path",
        "config_path",
        "proxy",
    }
)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_KEY_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"})


def build(arm: Arm, surroundings: Surroundings) -> HttpProvider:
    """Return the provider of an arm.

    Raises:
        ConfigError: an option is missing or cannot be read.
    """
    return HttpProvider(arm, surroundings.secret)


class HttpProvider:
    """One client for one application, which may report its configuration in every answer.

    `first_report` is the configuration that the run measures: the first one that was reported. `last_report` is the
    latest, also where it disagrees; asking once more after the last item brings the second answer to record.
    """

    def __init__(self, arm: Arm, secret: Secret | None) -> None:
        self._arm = arm
        self._secret = secret
        self._format = format_of(arm)
        self._url = _url(arm)
        self._headers = _headers(arm)
        self._client = httpx2.AsyncClient(
            **client_settings(arm),
            headers={**self._headers, **_key_header(arm, secret)},
            limits=httpx2.Limits(max_connections=arm.concurrency),
        )
        self.first_report: Mapping[str, JsonValue] | None = None
        self.last_report: Mapping[str, JsonValue] | None = None

    async def ask(self, ask: Ask) -> Reply:
        """Return the reply to one question.

        Raises:
            ProviderError: there is no reply, or the application reports another configuration than the run's.
        """
        redactor = redactor_of(self._arm, ask, secrets=(self._secret,))
        response = await self._answered(ask, redactor=redactor)
        if not response.is_success:
            raise failure_of_status(
                response.status_code, headers=response.headers, body=response.content, redactor=redactor
            )
        refuse_cached(response.headers)
        body = reply_json(response.content)
        reply = from_response(body, wire=self._format, model=self._arm.model, redactor=redactor)
        if self._format.config is not None:
            reported = at(body, *self._format.config)
            self._compare(checked_report(reported, withheld=self._arm.redact, redactor=redactor), redactor=redactor)
        return reply

    def wire_request(self, ask: Ask) -> WireRequest:
        """Return the request that `ask` would send."""
        path = self._url.raw_path.decode()
        return WireRequest("POST", path, to_request(ask, wire=self._format, model=self._arm.model), self._headers)

    def tool_versions(self) -> Mapping[str, str]:
        """Return the HTTP library's version."""
        return {"httpx2": httpx2.__version__}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _answered(self, ask: Ask, *, redactor: Redactor) -> httpx2.Response:
        body = to_request(ask, wire=self._format, model=self._arm.model)
        try:
            async with asyncio.timeout(self._arm.timeout_s):
                return await self._client.post(self._url, json=body)
        except TimeoutError:
            failure = timed_out(self._arm.timeout_s)
        except httpx2.HTTPError as error:
            failure = ProviderError("connection", redactor(f"{type(error).__name__}: {error}"))
        # Raised outside of the handlers: the library's exception holds the request with its key.
        raise failure

    def _compare(self, report: Mapping[str, JsonValue], *, redactor: Redactor) -> None:
        self.last_report = report
        if self.first_report is None:
            self.first_report = report
        refuse_difference(self.first_report, report, redactor=redactor)


def _url(arm: Arm) -> httpx2.URL:
    if arm.base_url is None:
        raise ConfigError(f"arm {arm.name!r}: an http arm needs the address of its application; set base_url")
    path = text_option(arm, "url") or ""
    if path and not path.startswith("/"):
        raise bad_option(arm, "url", why=f"is {path!r}, but must be the path under base_url, beginning with /")
    base = address(arm, default=arm.base_url)
    try:
        return httpx2.URL(str(base).rstrip("/") + path) if path else base
    except httpx2.InvalidURL:
        pass
    raise bad_option(arm, "url", why="is no path that can be sent; write it without control characters")


def _headers(arm: Arm) -> dict[str, str]:
    headers = arm.options.get("headers", {})
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise bad_option(arm, "headers", why="must be a table of texts")
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not is_header_value(str(value)):
            raise bad_option(arm, f"headers.{name}", why="must be a header's name and a text of printable ASCII")
        if name.lower() in _KEY_HEADERS:
            why = 'would hold a key; name it with credential = "NAME", and its header with options.auth_header'
            raise bad_option(arm, f"headers.{name}", why=why)
    return {name.lower(): str(value) for name, value in headers.items()}


def _key_header(arm: Arm, secret: Secret | None) -> dict[str, str]:
    """Return the header that carries the key: a bearer token in Authorization, and bare in another one."""
    name = text_option(arm, "auth_header")
    if name and not _HEADER_NAME.fullmatch(name):
        raise bad_option(arm, "auth_header", why=f"is {name!r}, but must be the name of a header")
    if secret is None:
        return {}
    return {name.lower(): secret.reveal()} if name else {"authorization": f"Bearer {secret.reveal()}"}
