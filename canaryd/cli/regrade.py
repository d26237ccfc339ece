"""`canaryd regrade`: the stored replies, graded again today."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

import click

from canaryd.cli.context import load_config
from canaryd.errors import MeasurementRefused, VerifyFailed
from canaryd.records import Failure, Grade, JsonValue

if TYPE_CHECKING:
    from canaryd.store.regrades import Regrade

SCHEMA_VERSION = 1


@click.command()
@click.option("--series", "series_name", help="Only this series.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Only slots from this date on.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document with a schema_version.")
@click.pass_obj
def regrade(config_file: str | None, series_name: str | None, since: datetime | None, as_json: bool) -> None:
    """Grade the stored replies again with the current graders, and list what comes out otherwise.

    The grades that are stored stay; what is found is stored beside them. Exits 65 when a grade differs.
    """
    import random

    from canaryd import sandbox
    from canaryd.regrade.replies import Bench
    from canaryd.regrade.replies import regrade as grade_again
    from canaryd.regrade.verdicts import format_moves
    from canaryd.runner.clock import clock_of
    from canaryd.store import read
    from canaryd.store.engine import open_store

    config = load_config(config_file)
    first = None if since is None else since.date()
    bench = Bench(sandbox.default(), random.SystemRandom())
    with open_store(config.store_url) as store:
        with store.read() as connection:
            known = read.all_series(connection) if series_name is None else (read.series(connection, series_name),)
        now = clock_of(config).now()
        passes = [grade_again(store, one.name, since=first, now=now, bench=bench) for one in known]
        with store.read() as connection:
            moves = {done.series: format_moves(connection, done.series) for done in passes}
    click.echo(_as_json(passes, moves) if as_json else _as_text(passes, moves))
    _judge(passes)


def _judge(passes: Sequence[Regrade]) -> None:
    """Raise the error that the exit code comes from, where not every reply got its grade again."""
    differing = sum(len(done.differences) for done in passes)
    ungraded = sum(done.ungraded for done in passes)
    if differing:
        raise VerifyFailed(
            f"{differing} of {sum(done.replies for done in passes)} stored replies are graded otherwise today; "
            "compare the grader versions above: the grades that are stored stay in force"
        )
    if ungraded:
        raise MeasurementRefused(
            f"{ungraded} stored replies could not be graded again, because the sandbox failed; run the command again",
            reason="sandbox_unavailable",
        )


def _as_text(passes: Sequence[Regrade], moves: dict[str, tuple[str, ...]]) -> str:
    lines: list[str] = []
    for done in passes:
        lines.append(f"{done.series}: {done.replies} replies with a grade{_from(done.since)}")
        lines.append(f"  identical  {done.identical}")
        lines.append(f"  different  {len(done.differences)}")
        lines.append(f"  expired    {done.expired} (their text is no longer stored)")
        if done.ungraded:
            lines.append(f"  ungraded   {done.ungraded} (the sandbox failed)")
        for each in done.differences:
            key = each.key
            place = f"{key.slot_date} {key.arm} {key.item_id} #{key.replicate}"
            lines.append(f"  {place}: {_said(each.old)} -> {_said(each.new)}")
        lines += [f"  {sentence}" for sentence in moves[done.series]]
    return "\n".join(lines)


def _from(since: date | None) -> str:
    return "" if since is None else f", from {since} on"


def _said(result: Grade | Failure) -> str:
    """Return a result without its detail, which may hold words of the reply."""
    if isinstance(result, Failure):
        return result.kind
    return f"{result.score:g}{'' if result.answered else ' unanswered'} ({result.grader})"


def _as_json(passes: Sequence[Regrade], moves: dict[str, tuple[str, ...]]) -> str:
    series: list[JsonValue] = [_pass_json(done, moves[done.series]) for done in passes]
    return json.dumps({"schema_version": SCHEMA_VERSION, "series": series}, indent=1)


def _pass_json(done: Regrade, moves: tuple[str, ...]) -> JsonValue:
    return {
        "name": done.series,
        "at": done.at.isoformat(),
        "since": None if done.since is None else done.since.isoformat(),
        "graders": list(done.graders),
        "replies": done.replies,
        "identical": done.identical,
        "expired": done.expired,
        "ungraded": done.ungraded,
        "differences": [
            {
                "slot_date": each.key.slot_date.isoformat(),
                "arm": each.key.arm,
                "item_id": each.key.item_id,
                "replicate": each.key.replicate,
                "old": _result_json(each.old),
                "new": _result_json(each.new),
            }
            for each in done.differences
        ],
        "format_moves": list(moves),
    }


def _result_json(result: Grade | Failure) -> JsonValue:
    if isinstance(result, Failure):
        return {"failure": result.kind}
    return {"score": result.score, "answered": result.answered, "passed": result.passed, "grader": result.grader}
