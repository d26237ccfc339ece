"""`canaryd deviation`, `rebaseline` and `ack`: what a person decides about a series, each with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import click

from canaryd.cli.context import load_config
from canaryd.errors import UsageError
from canaryd.records import JsonValue
from canaryd.wording import DIRECTIONS

if TYPE_CHECKING:
    from canaryd.runner.deviating import Drift
    from canaryd.runner.slot import Slot

_series = click.option("--series", "series_name", help="Which series, where there are several.")


class _Sentence(click.ParamType[str]):
    name = "TEXT"

    def convert(self, value: str, *_: object) -> str:
        if not value.strip():
            raise UsageError("--reason is empty; say why, it is stored and printed for ever")
        return value.strip()


_reason = click.option("--reason", required=True, type=_Sentence(), help="Why; it is stored and printed for ever.")


@click.group()
def deviation() -> None:
    """Record what differs from the plan, and accept a harness that has drifted."""


@deviation.command("add")
@_reason
@_series
@click.pass_obj
def add_command(config_file: str | None, reason: str, series_name: str | None) -> None:
    """Note something that happened to a series; it is printed beside what it coincides with and changes nothing."""
    from canaryd.store.epochs import Deviation, add_deviation
    from canaryd.studies.registration_text import git_commit

    with _slot(config_file, series_name) as slot:
        files = (slot.config.prereg, slot.config.panel)
        commit = git_commit(slot.config.prereg.parent, files=files)
        detail: dict[str, JsonValue] = {"registration": slot.series.registration_digest}
        if commit is not None:
            detail["git_commit"] = commit
        note = Deviation(slot.series.name, "noted", slot.slot_date, reason, detail, at=slot.clock.now())
        add_deviation(slot.store, note)
        click.echo(f"{slot.series.name} {slot.slot_date}: noted{f', git commit {commit}' if commit else ''}")


@deviation.command("accept")
@_reason
@click.option("--equivalent", is_flag=True, help="Keep the baseline: only SDK or CLI versions differ.")
@_series
@click.pass_obj
def accept_command(config_file: str | None, reason: str, equivalent: bool, series_name: str | None) -> None:
    """Accept the harness as it is now: a new baseline begins with the next slot, and windows never decide across.

    With --equivalent the baseline goes on; that is only granted while every request stays byte for byte the same.
    """
    from canaryd.runner.deviating import accept, accept_equivalent, drift_of

    with _slot(config_file, series_name) as slot:
        drift = drift_of(slot)
        if equivalent:
            accept_equivalent(slot, drift, reason=reason)
            _print(drift)
            click.echo(f"{slot.series.name}: accepted as equivalent, epoch {slot.epoch.number} goes on")
        else:
            first = accept(slot, drift, reason=reason)
            _print(drift)
            _say_begun(slot, first)


@click.command()
@_reason
@_series
@click.pass_obj
def rebaseline(config_file: str | None, reason: str, series_name: str | None) -> None:
    """Begin a new baseline with the next slot although nothing drifted; the first one stays as a comparison."""
    from canaryd.runner.deviating import drift_of
    from canaryd.runner.deviating import rebaseline as begin_anew

    with _slot(config_file, series_name) as slot:
        first = begin_anew(slot, drift_of(slot), reason=reason)
        _say_begun(slot, first)


@click.command()
@_reason
@click.option(
    "--until",
    metavar="WHEN",
    help="Silence the alarm state until then (UTC): 12h, 7d, 2027-04-01 or 2027-04-01T12:00Z; at most 90 days.",
)
@_series
@click.pass_obj
def ack(config_file: str | None, reason: str, until: str | None, series_name: str | None) -> None:
    """Acknowledge what is known already: with --until the alarm state, without it a change that an epoch carried over.

    With --until the state that the series is in pages nobody and sends no message until then. State and metrics stay
    as they are, and another state is not silenced. A newer acknowledgement of the same state replaces this one.

    Without --until, a change that was on when its epoch ended is settled, so that it is no longer carried on.
    """
    if until is None:
        from canaryd.runner.deviating import acknowledge

        with _slot(config_file, series_name) as slot:
            change = acknowledge(slot, reason=reason).verdict
            click.echo(
                f"{slot.series.name}: the change of window {change.window_index} of epoch {change.epoch} is settled"
            )
        return
    from canaryd.runner.clock import clock_of
    from canaryd.runner.silencing import silence
    from canaryd.store.engine import open_store

    config = load_config(config_file)
    now, name = clock_of(config).now(), config.one_series(series_name).name
    with open_store(config.store_url) as store:
        given = silence(store, name, until=_moment(until, now=now), reason=reason, now=now)
    click.echo(f"{name}: {given.state} is acknowledged until {given.until:%Y-%m-%d %H:%MZ}; the state stays on")


def _moment(text: str, *, now: datetime) -> datetime:
    """Return a moment given as a span from now, a UTC date or a time with its zone.

    >>> _moment("12h", now=datetime(2027, 4, 1, tzinfo=UTC)).isoformat()
    '2027-04-01T12:00:00+00:00'
    """
    span = re.fullmatch(r"(\d{1,4})([mhd])", text)
    if span:
        return now + timedelta(minutes=int(span[1]) * {"m": 1, "h": 60, "d": 1440}[span[2]])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is not None and len(text) == len("2027-04-01"):
        return moment.replace(tzinfo=UTC)
    if moment is None or moment.tzinfo is None:
        raise UsageError(f"--until is {text!r}, but must be such as 12h, 7d, 2027-04-01 or 2027-04-01T12:00Z (UTC)")
    return moment.astimezone(UTC)


@contextmanager
def _slot(config_file: str | None, series_name: str | None) -> Iterator[Slot]:
    """Yield today's slot of a series that has begun; nothing is asked, and no lease is taken."""
    from canaryd.runner.clock import clock_of
    from canaryd.runner.slot import slot_of
    from canaryd.store.engine import open_store
    from canaryd.windows import utc_date

    config = load_config(config_file)
    today = utc_date(clock_of(config).now())
    with open_store(config.store_url) as store:
        slot = slot_of(config, config.one_series(series_name), store=store, slot_date=today)
        if today < slot.series.start_date:
            raise UsageError(f"series {slot.series.name!r} begins on {slot.series.start_date}; there is no day yet")
        yield slot


def _say_begun(slot: Slot, first: date) -> None:
    """Say from when on the new epoch is, and which change stays on although its epoch has ended."""
    from canaryd.runner.deviating import carried_change

    click.echo(f"{slot.series.name}: epoch {slot.epoch.number + 1} begins with the slot of {first}")
    change = carried_change(slot)
    if change is not None:
        declared = DIRECTIONS[change.verdict.direction or "down"]
        click.echo(
            f"{slot.series.name}: the {declared} of window {change.verdict.window_index} of epoch "
            f"{change.verdict.epoch} stays on, carried, until it is settled with `canaryd ack --reason TEXT`"
        )


def _print(drift: Drift) -> None:
    for arm, deltas in drift.deltas.items():
        for delta in deltas:
            click.echo(f"  {arm}: {delta}")
