"""Posting what is owed to the receiver, oldest first; what became of each message is stored before the next is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from canaryd import prereg as registration
from canaryd.config import Config
from canaryd.errors import ConfigError, NotAccepted
from canaryd.providers.credentials import find_secret
from canaryd.providers.secret import Secret
from canaryd.service_config import Webhook
from canaryd.store import read
from canaryd.store.acknowledgements import acknowledgements
from canaryd.store.deliveries import DeliveryOutcome, keep_delivery
from canaryd.store.engine import Store
from canaryd.webhook.message import Message
from canaryd.webhook.notices import Notice, owed

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where messages go, with the URL at hand."""

    webhook: Webhook
    url: Secret

    def take(self, message: Message) -> None:
        """Post a message.

        Raises:
            NotAccepted: there was no answer, or one that is no success; the text never holds the URL.
        """
        import httpx2 as httpx

        try:
            answer = httpx.post(
                self.url.reveal(),
                json=message.body(self.webhook),
                headers={"Idempotency-Key": message.key},
                timeout=_TIMEOUT_S,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # The library's own text, and so its chain, may hold the URL.
            why = type(error).__name__
        else:
            if answer.is_success:
                return
            why = f"status {answer.status_code}"
        raise NotAccepted(f"the webhook (credential {self.webhook.credential!r}) did not take the message: {why}")


def receiver_of(config: Config) -> Receiver:
    """Return the receiver that a configuration names.

    Raises:
        ConfigError: it names none.
        CredentialsError: its URL cannot be found, or is none.
    """
    webhook = config.service.webhook
    if webhook is None:
        raise ConfigError(f'{config.path}: there is no [webhook]; add one with credential = "NAME" of its URL')
    url = find_secret(webhook.credential, config.credentials, env=os.environ)
    if not url.reveal().startswith(("https://", "http://")):
        raise ConfigError(
            f"{url.source}: what stands there is no http(s) URL; write the webhook's URL and nothing else"
        )
    return Receiver(webhook, url)


class Delivered(NamedTuple):
    """What became of one notice; `failed` is why nothing has become of it yet."""

    notice: Notice
    outcome: DeliveryOutcome | Literal["failed"]
    failed: str | None = None


def deliver(store: Store, series: str, *, receiver: Receiver, now: datetime) -> Iterator[Delivered]:
    """Yield what becomes of each notice that a series owes, up to the first that is not taken.

    A process that dies between the receiver's answer and the row sends that one message again, under the same key.

    Raises:
        StoreUnavailable: the store cannot be read or written.
    """
    with store.read() as connection:
        notices, known = owed(connection, series, now=now), acknowledgements(connection, series)
    silenced = {state for state, given in known.items() if given.is_in_force(now)}
    for notice in notices:
        outcome: DeliveryOutcome = "silenced" if notice.kind == "alarm" and notice.state in silenced else "accepted"
        if outcome == "accepted":
            try:
                receiver.take(_message(store, notice))
            except NotAccepted as error:
                yield Delivered(notice, "failed", str(error))
                return
        keep_delivery(store, series, notice=notice.id, outcome=outcome, now=now)
        yield Delivered(notice, outcome)


def synthetic(test: str, *, now: datetime) -> Message:
    """Return the message of a test by its id, which no other may have: marked as one, of a series that is none."""
    return Message(Notice(f"test/{test}", "synthetic", "alarm", "regression", "ok", now), synthetic=True)


def _message(store: Store, notice: Notice) -> Message:
    if notice.verdict_id is None:
        return Message(notice)
    with store.read() as connection:
        every = read.verdicts(connection, notice.series, superseded=True)
        protocol = registration.parse(
            read.registration(connection, notice.series), source=f"registration of {notice.series}"
        )
    verdict = next(each.verdict for each in every if each.verdict_id == notice.verdict_id)
    return Message(notice, verdict, min_effect=protocol.rule.min_effect)
