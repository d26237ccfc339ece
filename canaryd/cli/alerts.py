"""`canaryd alarms` and `canaryd alert`: what was declared when, and whether a page would arrive."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count, repeat
from typing import TYPE_CHECKING, Any

import click

from canaryd.cli.context import load_config
from canaryd.errors import NotAccepted, UsageError
from canaryd.records import Alarm, JsonValue

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from canaryd.store.acknowledgements import Acknowledgement
    from canaryd.webhook.standing import Standing

SCHEMA_VERSION = 1


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document with a schema_version.")
@click.option("--series", "series_name", help="Only this series.")
@click.pass_obj
def alarms(config_file: str | None, as_json: bool, series_name: str | None) -> None:
    """List every transition of the alarm state of every series, oldest first, and what is acknowledged now.

    The last line of a series is its current state. Where a webhook is configured, each line says what became of its
    message: accepted, silenced by an acknowledgement, waiting, or given up because it was not taken within three days
    and another state followed. Of the last two the running daemon says how often it has tried, the last error and
    when it tries again. The text may change at any time, a script reads --json.
    """
    from canaryd.runner.clock import clock_of
    from canaryd.status import ask_daemon
    from canaryd.store import read
    from canaryd.store.acknowledgements import acknowledgements
    from canaryd.store.engine import open_store

    config = load_config(config_file)
    names = [config.one_series(series_name).name] if series_name else [series.name for series in config.series]
    now = clock_of(config).now()
    with open_store(config.store_url) as store, store.read() as connection:
        transitions = {name: read.alarms(connection, name) for name in names}
        is_told = config.service.webhook is not None and any(transitions.values())
        live = ask_daemon(config.service.listen, store=store.name).series if is_told else {}
        found: list[tuple[Alarm, Standing | None]] = []
        for name, passed in transitions.items():
            webhook = live[name].webhook if name in live else {}
            stands = _standings(connection, name, now=now, live=webhook) if is_told and passed else repeat(None)
            found += zip(passed, stands, strict=False)
        silenced = [each for name in names for each in acknowledgements(connection, name).values()]
    silenced = [each for each in silenced if each.is_in_force(now)]
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "alarms": [_as_json(alarm, told) for alarm, told in found],
            "acknowledgements": [_given(each) for each in silenced],
        }
        click.echo(json.dumps(document, indent=1))
        return
    for alarm, told in found:
        message = f"   webhook {told.said()}" if told else ""
        click.echo(f"{alarm.since:%Y-%m-%d %H:%MZ}  {alarm.series:<12} {alarm.state}{message}")
    for each in silenced:
        click.echo(f"{each.series}: {each.state} is acknowledged until {each.until:%Y-%m-%d %H:%MZ}: {each.reason}")
    if not found:
        click.echo("no state has changed since the series were registered")


def _standings(connection: Connection, series: str, *, now: datetime, live: Mapping[str, Any]) -> Iterator[Standing]:
    """Yield where the message of each transition stands, oldest first, without end."""
    from canaryd.store.deliveries import deliveries
    from canaryd.webhook.notices import alarm_id, owed
    from canaryd.webhook.standing import standing

    told, waiting = deliveries(connection, series), {each.id for each in owed(connection, series, now=now)}
    for notice in map(alarm_id, count(1)):
        yield standing(notice, told=told.get(notice), is_owed=notice in waiting, live=live)


def _as_json(alarm: Alarm, told: Standing | None) -> dict[str, JsonValue]:
    return {
        "series": alarm.series,
        "state": alarm.state,
        "since": alarm.since.isoformat(),
        "verdict_id": alarm.verdict_id,
        "webhook": told.state if told and told.state in ("accepted", "silenced") else None,
        "message": told.to_json() if told else None,
    }


def _given(one: Acknowledgement) -> dict[str, JsonValue]:
    return {**one._asdict(), "at": one.at.isoformat(), "until": one.until.isoformat()}


@click.group()
def alert() -> None:
    """Try the way that alerts take."""


@alert.command("test")
@click.option(
    "--alertmanager",
    "url",
    default="http://127.0.0.1:9093",
    show_default=True,
    metavar="URL",
    help="The Alertmanager to send it to.",
)
@click.option("--webhook", "to_webhook", is_flag=True, help="Send it to the configured webhook instead.")
@click.option(
    "--severity",
    type=click.Choice(["critical", "warning"]),
    default="critical",
    show_default=True,
    help="Which route it takes.",
)
@click.pass_obj
def alert_test(config_file: str | None, url: str, to_webhook: bool, severity: str) -> None:
    """Send a message that is marked as a test through Alertmanager, where it ends by itself after five minutes.

    With --webhook it takes the way of the daemon's messages instead. Each test has an id of its own, by which it is
    found at its receiver. Nothing is stored, and no state of a series changes. Exits 69 when it was refused, or
    nobody answered.
    """
    test = secrets.token_hex(4)
    if to_webhook:
        _test_webhook(config_file, test)
    else:
        _test_alertmanager(url, severity, test=test)


def _test_webhook(config_file: str | None, test: str) -> None:
    from canaryd.webhook.deliver import receiver_of, synthetic

    receiver = receiver_of(load_config(config_file))
    try:
        receiver.take(synthetic(test, now=datetime.now(UTC)))
    except NotAccepted as error:
        raise NotAccepted(f"{error}; check the URL in {receiver.url.source}") from None
    click.echo(f"the webhook (credential {receiver.webhook.credential!r}) took test {test}")


def _test_alertmanager(url: str, severity: str, *, test: str) -> None:
    import httpx2 as httpx

    now = datetime.now(UTC)
    posted = {
        "labels": {
            "alertname": "CanarydTest",
            "severity": severity,
            "job": "canaryd",
            "synthetic": "true",
            "test": test,
        },
        "annotations": {
            "summary": "This is a test of the alerting chain of canaryd.",
            "description": f"Somebody ran `canaryd alert test` (test {test}). Nothing is wrong.",
        },
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(minutes=5)).isoformat(),
    }
    try:
        answer = httpx.post(f"{url.rstrip('/')}/api/v2/alerts", json=[posted], timeout=10)
        answer.raise_for_status()
    except httpx.InvalidURL as error:
        raise UsageError(f"--alertmanager {url} is no URL ({error}); write one such as http://127.0.0.1:9093") from None
    except httpx.HTTPError as error:
        raise NotAccepted(
            f"--alertmanager {url}: the test page was not taken ({type(error).__name__}: {error}); check the URL"
        ) from None
    click.echo(
        f"sent CanarydTest ({severity}, test {test}) to {url}; it should reach its receiver within a minute, or within "
        "its group_interval where an earlier test is still on"
    )
