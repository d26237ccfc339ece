"""A reply that repeats the arm's key is no measurement: nothing of it may be kept."""

from __future__ import annotations

from collections.abc import Mapping

from canaryd.providers.base import Provider, ProviderError, ReportsConfiguration, WireRequest
from canaryd.providers.secret import Secret
from canaryd.records import Ask, JsonValue, Reply


class Discreet:
    """A provider whose replies never hold the key that was sent with the question."""

    def __init__(self, provider: Provider, secret: Secret) -> None:
        self._provider = provider
        self._secret = secret

    async def ask(self, ask: Ask) -> Reply:
        """Return the reply to one question.

        Raises:
            ProviderError: there is none, or it repeats the key (`malformed`).
        """
        reply = await self._provider.ask(ask)
        key = self._secret.reveal()
        said = (reply.text, reply.response_id, reply.resolved_model, reply.system_fingerprint)
        if any(key in part for part in said if part):
            raise ProviderError(
                "malformed",
                "the reply repeats the key of the arm, so nothing of it is kept",
                input_tokens=reply.input_tokens,
                output_tokens=reply.output_tokens,
            )
        return reply

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


def discreet(provider: Provider, secret: Secret) -> Provider:
    """Return the provider, refusing replies that hold the secret."""
    return (DiscreetReporting if isinstance(provider, ReportsConfiguration) else Discreet)(provider, secret)
