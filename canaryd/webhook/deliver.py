"""Posting what is owed to the receiver, oldest first; what became of each message is stored before the next is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from canaryd import prereg as registration
from canaryd.config import Config
from canaryd.errors import CanarydError, ConfigError
from canaryd.providers.credentials import find_secret
from canaryd.providers.secret import Secret
from canaryd.records import Alarm
from canaryd.service_config import Webhook
from canaryd.store import read
from canaryd.store.acknowledgements import acknowledgements
from canaryd.store.deliveries import DeliveryOutcome, Transition, keep_delivery, undelivered
from canaryd.store.engine import Store
from canaryd.webhook.message import Message

_TIMEOUT_S = 10.0
#: A transition that another followed is told of for so long; later it would only confuse. The newest always is.
OUTDATED_AFTER = timedelta(days=3)


class NotAccepted(CanarydError):
    """The receiver did not take a message; the text never holds its URL."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where messages go, with the URL at hand."""

    webhook: Webhook
    url: Secret

    def take(self, message: Message) -> None:
        """Post a message.

        Raises:
            NotAccepted: there was no answer, or one that is no success.
        """
        import httpx2 as httpx

        try:
            answer = httpx.post(
                self.url.reveal(),
                json=message.body(self.webhook),
                headers={"Idempotency-Key": message.id},
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


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of one transition's message; `failed` is why nothing is known of it yet."""

    transition: Transition
    outcome: DeliveryOutcome | Literal["failed"]
    failed: str | None = None


def deliver(store: Store, series: str, *, receiver: Receiver, now: datetime) -> Iterator[Delivered]:
    """Yield what becomes of each message that a series owes, up to the first that is not taken.

    A process that dies between the receiver's answer and the row sends that one message again, under the same id.

    Raises:
        StoreUnavailable: the store cannot be read or written.
    """
    with store.read() as connection:
        owed, known = undelivered(connection, series), acknowledgements(connection, series)
    for transition in owed:
        acknowledged = known.get(transition.alarm.state)
        outcome: DeliveryOutcome = "accepted"
        if acknowledged is not None and acknowledged.is_in_force(now):
            outcome = "silenced"
        elif transition is not owed[-1] and now - transition.alarm.since > OUTDATED_AFTER:
            outcome = "outdated"
        else:
            try:
                receiver.take(_message(store, transition))
            except NotAccepted as error:
                yield Delivered(transition, "failed", str(error))
                return
        keep_delivery(store, transition, outcome=outcome, now=now)
        yield Delivered(transition, outcome)


def synthetic(now: datetime) -> Message:
    """Return the message of a test: marked as one, of a series that is none."""
    return Message(
        "test", Alarm("synthetic", "regression", now, None), "ok", verdict=None, min_effect=0.0, synthetic=True
    )


def _message(store: Store, transition: Transition) -> Message:
    alarm = transition.alarm
    with store.read() as connection:
        every = read.verdicts(connection, alarm.series, superseded=True)
        protocol = registration.parse(
            read.registration(connection, alarm.series), source=f"registration of {alarm.series}"
        )
    verdict = next((each.verdict for each in every if each.verdict_id == alarm.verdict_id), None)
    return Message(
        f"{alarm.series}/{transition.alarm_id}", alarm, transition.before, verdict, min_effect=protocol.rule.min_effect
    )
