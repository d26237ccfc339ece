"""`canaryd run`: one slot of one series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

import click

from canaryd.cli.context import load_config
from canaryd.cli.interrupt import end_gently
from canaryd.config import Config, SeriesConfig
from canaryd.errors import CanarydError, ConfigError, CredentialsError, MeasurementRefused, UsageError
from canaryd.records import Run, RunEnd
from canaryd.runner.clock import clock_of
from canaryd.runner.validity import SET_ASIDE
from canaryd.schedule import due_at
from canaryd.windows import utc_date
from canaryd.wording import counted, decided


@click.command()
@click.option(
    "--slot", default="today", metavar="DATE|today", help="Today's UTC date; a demo clock is set on to a later one."
)
@click.option("--series", "series_name", help="Which series, where there are several.")
@click.option("--no-canary", is_flag=True, help="Leave out the trivial task before the first item; recorded.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be asked; ask and store nothing.")
@click.pass_obj
def run(config_file: str | None, slot: str, series_name: str | None, no_canary: bool, dry_run: bool) -> None:
    """Measure one slot: ask every item of every arm, grade, store, and decide what is due.

    A slot that was cut off goes on where it stopped; one that is complete is left alone. An arm that cannot be asked is
    closed with the reason, and the others are measured: 69 when an arm could not be measured, 77 when none was asked
    for want of a key, 78 when none was for its configuration. Ctrl-C or SIGTERM begins no further question, stores the
    answers in flight and exits 130; the slot goes on from there. A second one exits at once.
    """
    from canaryd.daily import measure_slot

    config = load_config(config_file)
    chosen = config.one_series(series_name)
    slot_date = _slot_date(slot, config)
    if dry_run:
        _say_what_is_owed(config, chosen, slot_date=slot_date)
        return
    end_gently()
    _set_demo_clock(config, slot_date)
    result = measure_slot(config, chosen, slot_date=slot_date, canary=not no_canary)
    if not result.runs:
        click.echo(f"{chosen.name} {slot_date}: nothing is owed, every sample of the slot is measured")
    for each in result.runs:
        assert each.end is not None
        click.echo(f"{chosen.name} {slot_date} {each.start.arm}: {each.end.outcome} {each.end.reason}".rstrip())
    for arm, reason in result.set_aside.items():
        if reason in SET_ASIDE:
            click.echo(f"{chosen.name} {slot_date} {arm}: all of it is set aside as {reason}: {SET_ASIDE[reason]}")
    for verdict in result.verdicts:
        said = decided(verdict.kind, verdict.direction, attribution=verdict.attribution, reasons=verdict.reasons)
        click.echo(f"{chosen.name} window {verdict.window_index}: {said}")
    if failed := [each.start.arm for each in result.runs if each.end and each.end.outcome != "completed"]:
        raise _incomplete(f"the slot {slot_date} of {chosen.name} is not complete ({', '.join(failed)})", result.runs)


def _incomplete(what: str, runs: Sequence[Run]) -> CanarydError:
    """Return the error of a slot that is not complete: where no arm was asked for one reason, that reason's own."""
    ends = [run.end for run in runs if run.end is not None]
    reasons = {end.reason.partition(":")[0] if end.outcome == "refused" else "" for end in ends}
    said = f"{what}; {remedy(end for end in ends if end.outcome != 'completed')}"
    if reasons == {"credentials"}:
        return CredentialsError(said)
    return ConfigError(said) if reasons == {"configuration"} else MeasurementRefused(said, reason="incomplete")


def _say_what_is_owed(config: Config, series: SeriesConfig, *, slot_date: date) -> None:
    """Print how many samples each arm owes, and what the budget says of them; everything pinned is checked."""
    from canaryd.runner.judge import judged
    from canaryd.runner.slot import slot_of
    from canaryd.runner.spending import outlook
    from canaryd.store.engine import open_store

    with open_store(config.store_url) as store:
        slot = slot_of(config, series, store=store, slot_date=slot_date)
        asks = slot.owed()
        problem = outlook(slot, asks, canary=True).problem
    for arm in series.arms:
        owed = sum(ask.arm == arm.name for ask in asks)
        click.echo(f"{series.name} {slot_date} {arm.name}: would ask {owed} samples of {arm.provider} {arm.model}")
    if slot.judge is not None:
        judge, answers = slot.judge.config, counted(len(judged(asks, slot.panel)), "answer")
        anchors = counted(len(slot.judge.anchors), "anchor") if asks else "no anchor"
        click.echo(f"{series.name} {slot_date} judge: would grade {answers} and {anchors} by {judge.identity}")
    if slot_date < slot.series.start_date:
        click.echo(f"{series.name} begins on {slot.series.start_date}; nothing is measured before")
    if problem is not None:
        click.echo(f"the budget would refuse it: {problem}")


def remedy(ended: Iterable[RunEnd]) -> str:
    """Return what helps after runs that did not complete, each step once.

    >>> from datetime import UTC, datetime
    >>> remedy([RunEnd(datetime(2027, 3, 1, tzinfo=UTC), "incomplete", "")])
    'run the same command again today to ask what is missing'
    """
    steps = dict.fromkeys(step for end in ended if (step := _step_before(end)))
    return "; then ".join([*steps, "run the same command again today to ask what is missing"])


def _step_before(ended: RunEnd) -> str | None:
    """Return what is done before a run is tried again; None where it only has to go on."""
    if ended.outcome == "incomplete":
        return None
    if ended.reason.startswith("harness_drift"):
        return "restore what differs, or accept it as a new baseline with `canaryd deviation accept --reason TEXT`"
    return "see what `canaryd doctor` says to do about it"


def _slot_date(slot: str, config: Config) -> date:
    today = utc_date(clock_of(config).now())
    if slot == "today":
        return today
    try:
        wanted = date.fromisoformat(slot)
    except ValueError:
        raise UsageError(f"--slot is {slot!r}, but must be `today` or a date such as {today}") from None
    if wanted == today or (config.demo_clock is not None and wanted > today):
        return wanted
    raise UsageError(
        f"--slot is {wanted}, but only today's slot ({today}, UTC) can be measured; nothing is back-filled"
    )


def _set_demo_clock(config: Config, slot_date: date) -> None:
    """Set a demo clock that stands before a slot on to the slot's time."""
    if config.demo_clock is not None and utc_date(clock_of(config).now()) < slot_date:
        config.demo_clock.write_text(f"{due_at(slot_date, config.schedule.due_minute).isoformat()}\n")
