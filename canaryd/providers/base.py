"""The provider seam: one question goes out, and a Reply or a ProviderError comes back."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from canaryd.errors import CanarydError, ConfigError
from canaryd.providers.secret import Secret, redact
from canaryd.records import FAILURE_KINDS, TRANSPORT_FAILURES, Arm, Ask, Item, JsonValue, Reply, ResolvedStanding

_PROXY = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\]):([0-9]{1,5})")


class ProviderError(CanarydError):
    """One attempt that brought no Reply: its failure kind, and a redacted sentence.

    `retry_after_s` is what the provider asked for; token counts are known where a broken reply still reported them, and
    they count against the budget.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        retry_after_s: float | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        if kind not in FAILURE_KINDS:
            raise ValueError(f"{kind!r} is no failure kind")
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens

    @property
    def retryable(self) -> bool:
        """Whether nothing was measured and asking again may measure."""
        return self.kind in TRANSPORT_FAILURES


@dataclass(frozen=True, slots=True)
class WireRequest:
    """The request as it is really sent, without secrets: what the harness fingerprint holds.

    `headers` are those that change the meaning of the request (an API version), not those of the connection. `host` is
    the one that the provider chooses by an option where the arm names none; None where it has only one.
    """

    method: str
    path: str
    body: JsonValue
    headers: Mapping[str, str] = field(default_factory=dict)
    host: str | None = None


class Provider(Protocol):
    """One arm's way to its model. An instance lives as long as a run and may be asked concurrently."""

    async def ask(self, ask: Ask) -> Reply:
        """Return the reply to one question; one attempt, ended by the arm's total timeout.

        Raises:
            ProviderError: there is no reply; nothing else is raised.
        """

    def wire_request(self, ask: Ask) -> WireRequest:
        """Return the request that `ask` would send; with a placeholder as prompt it is the canonical one."""

    def tool_versions(self) -> Mapping[str, str]:
        """Return name and version of every tool between canaryd and the wire (an SDK, a command-line program)."""

    async def aclose(self) -> None:
        """Close connections and child processes."""


@runtime_checkable
class ReportsConfiguration(Protocol):
    """A provider whose application reports the configuration that it answers with.

    `first_report` is the run's, from its first answer; `last_report` is the latest, also where it disagrees.
    """

    first_report: Mapping[str, JsonValue] | None
    last_report: Mapping[str, JsonValue] | None


@runtime_checkable
class HoldsSecrets(Protocol):
    """A provider that signs or sends other keys than the arm's credential as it stands."""

    def secrets(self) -> Collection[Secret]:
        """Return every key by itself that a reply or an error could repeat."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a provider is built with besides its arm.

    `env` is the process environment (read for variables that would re-point or add to the requests); `items` are the
    panel's, which only the simulated provider reads.
    """

    env: Mapping[str, str]
    secret: Secret | None = None
    items: Sequence[Item] = ()


def failure_kind(reply: Reply) -> str | None:
    """Return the outcome failure that a reply is, or None when there is something to grade.

    The stop reason decides first: a truncated reply is `truncated` even when its text holds an answer, and an empty one
    that ran into the limit is `truncated`, not `empty`.

    >>> failure_kind(Reply(text="", stop="length")), failure_kind(Reply(text=" ", stop="stop"))
    ('truncated', 'empty')
    """
    by_stop = {"length": "truncated", "refusal": "refusal", "content_filter": "content_filtered"}
    if reply.stop in by_stop:
        return by_stop[reply.stop]
    return None if reply.text.strip() else "empty"


def standing_of(asked: str, resolved: str | None) -> ResolvedStanding:
    """Return what a reported model name is worth: a name that repeats the request identifies nothing.

    >>> standing_of("m", "m-0513"), standing_of("m", "m"), standing_of("m", None)
    ('reported', 'echo', 'not_reported')
    """
    if resolved is None:
        return "not_reported"
    return "echo" if resolved == asked else "reported"


def required_secret(arm: Arm, secret: Secret | None) -> Secret:
    """Return the secret.

    Raises:
        ConfigError: the arm names no credential.
    """
    if secret is None:
        raise ConfigError(
            f"arm {arm.name!r}: provider {arm.provider!r} sends a key, but none was given; "
            'name one with credential = "NAME"'
        )
    return secret


def refuse_variables(arm: Arm, env: Mapping[str, str], *, names: Sequence[str]) -> None:
    """Refuse environment variables by which an SDK would change requests behind the configuration's back.

    Raises:
        ConfigError: one of them is set.
    """
    for name in names:
        if env.get(name):
            raise ConfigError(
                f"environment: {name} is set, and would change what arm {arm.name!r} sends without the configuration "
                "saying so; unset it and write what you need into the arm"
            )


def bad_option(arm: Arm, option: str, *, why: str) -> ConfigError:
    """Return the error of an option of the provider that cannot be obeyed as written."""
    return ConfigError(f"arm {arm.name!r}: options.{option} {why}")


def timed_out(timeout_s: float) -> ProviderError:
    """Return the error of an attempt that its total timeout has ended."""
    return ProviderError("timeout", f"no complete reply within {timeout_s:g} s")


def redactor_of(arm: Arm, ask: Ask, *, secrets: Sequence[Secret | None]) -> Callable[[str], str]:
    """Return the function that makes a text fit for a failure's detail: no key, no panel, and no withheld address."""
    addresses = (arm.base_url, proxy_of(arm)) if arm.redact else ()
    hosts = [host for address in addresses if address and (host := urlsplit(address).hostname)]
    return partial(redact, secrets=secrets, private=(ask.prompt, ask.system), hosts=hosts)


def text_option(arm: Arm, name: str, *, allowed: Collection[str] = ()) -> str | None:
    """Return the text of an option of the provider, or None when it is not set.

    Raises:
        ConfigError: the option is no text, or not one of `allowed`.
    """
    value = arm.options.get(name)
    if value is None or (isinstance(value, str) and value and (not allowed or value in allowed)):
        return value
    raise bad_option(arm, name, why=f"is {value!r}, but must be {' or '.join(sorted(allowed)) or 'a text'}")


def header_option(arm: Arm, name: str) -> str | None:
    """Return the text of an option that is sent as a header's value, or None when it is not set.

    Raises:
        ConfigError: the option is no text that a header can hold.
    """
    value = text_option(arm, name)
    if value is not None and not is_header_value(value):
        raise bad_option(arm, name, why="must be printable ASCII, as it is sent in a header")
    return value


def is_header_value(value: str) -> bool:
    """Return whether a header can hold a text as it stands.

    >>> is_header_value("org-1"), is_header_value("\u00fc"), is_header_value("a\\nb")
    (True, False, False)
    """
    return value.isascii() and value.isprintable()


def proxy_of(arm: Arm) -> str | None:
    """Return the address of the proxy that an arm's requests go through, or None where they go straight.

    Raises:
        ConfigError: options.proxy is none, or holds a user; it is not repeated, as it may hold a password.
    """
    proxy = arm.options.get("proxy")
    if proxy is None:
        return None
    if isinstance(proxy, str) and (found := _PROXY.fullmatch(proxy)) and 0 < int(found[1]) < 2**16:
        return proxy
    raise bad_option(arm, "proxy", why="must be http://HOST:PORT, without a user or a path")


def with_extra_body(arm: Arm, fields: Mapping[str, JsonValue], *, structural: Collection[str]) -> dict[str, JsonValue]:
    """Return `fields` with the fields of options.extra_body beside them, which are sent as they stand.

    Raises:
        ConfigError: extra_body is no table, or repeats a field that is already sent or belongs to canaryd.
    """
    extra = arm.options.get("extra_body", {})
    if not isinstance(extra, dict):
        raise bad_option(arm, "extra_body", why=f"is {extra!r}, but must be a table of request fields")
    for key in extra:
        if key in fields or key in structural:
            why = "would overwrite what is sent already; set it under params, or leave it out"
            raise bad_option(arm, f"extra_body.{key}", why=why)
    return {**fields, **extra}
