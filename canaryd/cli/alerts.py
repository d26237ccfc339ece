"""`canaryd alarms` and `canaryd alert`: what was declared when, and whether a page would arrive."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import click

from canaryd.cli.context import load_config
from canaryd.records import Alarm, JsonValue

SCHEMA_VERSION = 1


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document with a schema_version.")
@click.option("--series", "series_name", help="Only this series.")
@click.pass_obj
def alarms(config_file: str | None, as_json: bool, series_name: str | None) -> None:
    """List every transition of the alarm state of every series, oldest first.

    The last line of a series is its current state. The text may change at any time, a script reads --json.
    """
    from canaryd.store import read
    from canaryd.store.engine import open_store

    config = load_config(config_file)
    names = [config.one_series(series_name).name] if series_name else [series.name for series in config.series]
    with open_store(config.store_url) as store, store.read() as connection:
        found = [alarm for name in names for alarm in read.alarms(connection, name)]
    if as_json:
        document = {"schema_version": SCHEMA_VERSION, "alarms": [_as_json(alarm) for alarm in found]}
        click.echo(json.dumps(document, indent=1))
        return
    for alarm in found:
        click.echo(f"{alarm.since:%Y-%m-%d %H:%MZ}  {alarm.series:<12} {alarm.state}")
    if not found:
        click.echo("no state has changed since the series were registered")


def _as_json(alarm: Alarm) -> dict[str, JsonValue]:
    return {
        "series": alarm.series,
        "state": alarm.state,
        "since": alarm.since.isoformat(),
        "verdict_id": alarm.verdict_id,
    }


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
@click.option(
    "--severity",
    type=click.Choice(["critical", "warning"]),
    default="critical",
    show_default=True,
    help="Which route it takes.",
)
def alert_test(url: str, severity: str) -> None:
    """Send a page that is marked as a test through Alertmanager; it ends by itself after five minutes.

    Nothing is stored, and no state of a series changes.
    """
    import httpx2 as httpx

    from canaryd.errors import UsageError

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
