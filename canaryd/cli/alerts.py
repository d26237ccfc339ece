"""`canaryd alarms` and `canaryd alert`: what was declared when, and whether a page would arrive."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from canaryd.cli.context import load_config
from canaryd.errors import UsageError
from canaryd.records import Alarm, JsonValue

if TYPE_CHECKING:
    from canaryd.store.acknowledgements import Acknowledgement

SCHEMA_VERSION = 1


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document with a schema_version.")
@click.option("--series", "series_name", help="Only this series.")
@click.pass_obj
def alarms(config_file: str | None, as_json: bool, series_name: str | None) -> None:
    """List every transition of the alarm state of every series, oldest first, and what is acknowledged now.

    The last line of a series is its current state. Where a webhook is configured, each line says what became of its
    message. The text may change at any time, a script reads --json.
    """
    from canaryd.runner.clock import clock_of
    from canaryd.store import read
    from canaryd.store.acknowledgements import acknowledgements
    from canaryd.store.deliveries import deliveries
    from canaryd.store.engine import open_store
    from canaryd.webhook.notices import alarm_id

    config = load_config(config_file)
    names = [config.one_series(series_name).name] if series_name else [series.name for series in config.series]
    now = clock_of(config).now()
    with open_store(config.store_url) as store, store.read() as connection:
        told_of = {name: deliveries(connection, name) for name in names}
        found = [
            (alarm, told_of[name].get(alarm_id(number)))
            for name in names
            for number, alarm in enumerate(read.alarms(connection, name), start=1)
        ]
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
        message = f"   webhook {told or 'not told'}" if config.service.webhook else ""
        click.echo(f"{alarm.since:%Y-%m-%d %H:%MZ}  {alarm.series:<12} {alarm.state}{message}")
    for each in silenced:
        click.echo(f"{each.series}: {each.state} is acknowledged until {each.until:%Y-%m-%d %H:%MZ}: {each.reason}")
    if not found:
        click.echo("no state has changed since the series were registered")


def _as_json(alarm: Alarm, told: str | None) -> dict[str, JsonValue]:
    return {
        "series": alarm.series,
        "state": alarm.state,
        "since": alarm.since.isoformat(),
        "verdict_id": alarm.verdict_id,
        "webhook": told,
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

    With --webhook it takes the way of the daemon's messages instead. Nothing is stored, and no state of a series
    changes.
    """
    if to_webhook:
        _test_webhook(config_file)
    else:
        _test_alertmanager(url, severity)


def _test_webhook(config_file: str | None) -> None:
    from canaryd.webhook.deliver import NotAccepted, receiver_of, synthetic

    receiver = receiver_of(load_config(config_file))
    try:
        receiver.take(synthetic(datetime.now(UTC)))
    except NotAccepted as error:
        raise UsageError(f"{error}; check the URL in {receiver.url.source}") from None
    click.echo(f"the webhook (credential {receiver.webhook.credential!r}) took a test message")


def _test_alertmanager(url: str, severity: str) -> None:
    import httpx2 as httpx

    now = datetime.now(UTC)
    posted = {
        "labels": {"alertname": "CanarydTest", "severity": severity, "job": "canaryd", "synthetic": "true"},
        "annotations": {
            "summary": "This is a test of the alerting chain of canaryd.",
            "description": "Somebody ran `canaryd alert test`. Nothing is wrong.",
        },
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(minutes=5)).isoformat(),
    }
    try:
        answer = httpx.post(f"{url.rstrip('/')}/api/v2/alerts", json=[posted], timeout=10)
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise UsageError(
            f"--alertmanager {url}: the test page was not taken ({type(error).__name__}: {error}); check the URL"
        ) from None
    click.echo(f"sent CanarydTest ({severity}) to {url}; it should reach its receiver within a minute")
