"""What every provider's reply goes through: one that repeats a key is no measurement, and names are plain text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from canaryd.providers.base import HoldsSecrets, Provider, ProviderError, ReportsConfiguration, WireRequest
from canaryd.providers.secret import Secret
from canaryd.records import Ask, JsonValue, Reply


class Discreet:
    """A provider whose replies never hold a key: neither the credential nor any other that the provider holds.

    The names in a reply (model, response id, fingerprint) are printable: whatever a server writes there can be stored
    in either database, hashed and shown.
    """

    def __init__(self, provider: Provider, secret: Secret | None) -> None:
        self._provider = provider
        self._credential = [] if secret is None else [secret]

    async def ask(self, ask: Ask) -> Reply:
        """Return the reply to one question.

        Raises:
            ProviderError: there is none, or it repeats a key (`malformed`).
        """
        reply = await self._provider.ask(ask)
        held = self._provider.secrets() if isinstance(self._provider, HoldsSecrets) else ()
        said = (reply.text, reply.response_id, reply.resolved_model, reply.system_fingerprint)
        if any(secret.reveal() in part for secret in (*self._credential, *held) for part in said if part):
            raise ProviderError(
                "malformed",
                "the reply repeats a key of the arm, so nothing of it is kept",
                input_tokens=reply.input_tokens,
                output_tokens=reply.output_tokens,
            )
        return replace(
            reply,
            resolved_model=_plain(reply.resolved_model),
            response_id=_plain(reply.response_id),
            system_fingerprint=_plain(reply.system_fingerprint),
        )

    def wire_request(self, ask: Ask) -> WireRequest:
        """Return the request that `ask` would send."""
        return self._provider.wire_request(ask)

    def tool_versions(self) -> Mapping[str, str]:
        """Return name and version of every tool between canaryd and the wire."""
        return self._provider.tool_versions()

    async def aclose(self) -> None:
        """Close connections and child processes."""
        await self._provider.aclose()


class DiscreetReporting(Discreet):
    """The same of a provider whose application reports the configuration that it answers with."""

    @property
    def first_report(self) -> Mapping[str, JsonValue] | None:
        """The run's configuration, from its first answer."""
        assert isinstance(self._provider, ReportsConfiguration)
        return self._provider.first_report

    @property
    def last_report(self) -> Mapping[str, JsonValue] | None:
        """The latest configuration, also where it disagrees."""
        assert isinstance(self._provider, ReportsConfiguration)
        return self._provider.last_report


def _plain(name: str | None) -> str | None:
    """Return a name with U+FFFD for what cannot be printed, a lone surrogate or NUL say.

    >>> _plain("m\\ud800-2026"), _plain(None)
    ('m\ufffd-2026', None)
    """
    return name and "".join(c if c.isprintable() else "\ufffd" for c in name)


def discreet(provider: Provider, secret: Secret | None) -> Provider:
    """Return the provider, refusing replies that hold the arm's credential or another key of the provider's."""
    return (DiscreetReporting if isinstance(provider, ReportsConfiguration) else Discreet)(provider, secret)
