"""`canaryd duel`: two retrieval substrates, two judges, both orders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from canaryd.messages import say
from canaryd.wording import counted

if TYPE_CHECKING:
    from canaryd.duel.report import DuelReport

_PLAN = click.argument("plan", type=click.Path(path_type=Path))


@click.group()
def duel() -> None:
    """Compare two retrieval substrates on paired questions, by two judges of two families, in both orders."""


@duel.command("lint")
@click.argument("fixture", type=click.Path(path_type=Path))
def lint_command(fixture: Path) -> None:
    """Say what is wrong with FIXTURE, each with file and line; exit 78 when there is anything."""
    from canaryd.duel.fixture import lint_fixture, notices_of, parse_fixture
    from canaryd.errors import ConfigError
    from canaryd.files import read_bytes

    data = read_bytes(fixture)
    complaints = lint_fixture(data, source=str(fixture))
    for complaint in complaints:
        click.echo(complaint)
    if complaints:
        raise ConfigError(
            f"{fixture}: {counted(len(complaints), 'complaint')}; mend them before you register a duel on it"
        )
    questions = parse_fixture(data, source=str(fixture))
    for notice in notices_of(questions, source=str(fixture)):
        say(f"warning: {notice}")
    click.echo(f"{fixture}: clean, {counted(len(questions), 'question')}")


@duel.command("register")
@_PLAN
def register_command(plan: Path) -> None:
    """Check PLAN with the files it names and write their digests into a lock beside it."""
    from canaryd.duel.project import open_duel, register_duel
    from canaryd.duel.registration import warnings_of
    from canaryd.duel.substrates import require_entry

    project = open_duel(plan)
    for substrate in project.duel.plan.substrates:
        require_entry(substrate, folder=project.folder)
    is_new = register_duel(project)
    for warning in warnings_of(project.duel):
        say(f"warning: {warning}")
    what = "registered" if is_new else "was registered before"
    found = project.duel
    sizes = f"{counted(len(found.questions), 'question')}, {counted(len(found.anchors), 'anchor')}"
    click.echo(f"{project.lock}: {what}, {sizes}, {found.digest}")


@duel.command("run")
@_PLAN
def run_command(plan: Path) -> None:
    """Judge what the registered duel PLAN still owes; a recorded call is never repeated.

    Exits 2 when the duel has no verdict, 69 when a judge could not be asked (run it again to go on).
    """
    import asyncio

    from canaryd.config import Retry
    from canaryd.duel.project import open_duel
    from canaryd.duel.report import build_report
    from canaryd.duel.session import run_duel
    from canaryd.runner.clock import SystemClock

    project = open_duel(plan)
    asyncio.run(run_duel(project, env=os.environ, clock=SystemClock(), retry=Retry()))
    report = build_report(project)
    click.echo(report.headline)
    click.echo(f"record   {project.record}\nnext:    canaryd duel report {plan}")
    click.get_current_context().exit(report.exit_code)


@duel.command("report")
@_PLAN
@click.option("--against", type=click.Path(path_type=Path), metavar="PLAN", help="An earlier duel: what moved since?")
@click.option("--json", "as_json", is_flag=True, help="One JSON document with a schema_version.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write one HTML page there as well.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="Write Markdown there as well.")
def report_command(plan: Path, against: Path | None, as_json: bool, html: Path | None, markdown: Path | None) -> None:
    """Report the duel PLAN from its records: the verdict, which clause fired, and how far the judges can be trusted.

    Exits 0 when there is a verdict, whichever it is, and 2 when there is none.
    """
    from canaryd.duel.project import open_duel
    from canaryd.duel.report import build_report

    report = build_report(open_duel(plan), against=open_duel(against) if against else None)
    _write_pages(report, html=html, markdown=markdown)
    _show(report, as_json=as_json)
    click.get_current_context().exit(report.exit_code)


@duel.command("demo")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default="duel-demo",
    show_default=True,
    help="Where the example is written.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the simulated judges (default: a free one).")
def demo_command(folder: Path, port: int) -> None:
    """Play the example: two small searches over canaryd's own documentation, 64 questions, two simulated judges.

    Everything runs on this machine, and nothing is stubbed but the judges: the official SDK asks them over HTTP.
    """
    import asyncio

    from canaryd.config import Retry
    from canaryd.duel.example import JUDGES, questions, write_example
    from canaryd.duel.project import open_duel, register_duel
    from canaryd.duel.report import build_report
    from canaryd.duel.session import run_duel
    from canaryd.duel.simulated import JudgeServer
    from canaryd.runner.clock import SystemClock

    with JudgeServer(JUDGES, questions=questions(), port=port) as server:
        plan = write_example(folder, port=server.port)
        project = open_duel(plan)
        register_duel(project)
        asyncio.run(run_duel(project, env=os.environ, clock=SystemClock(), retry=Retry()))
        calls = server.calls
    report = build_report(project)
    page = folder / "report.html"
    _write_pages(report, html=page, markdown=folder / "report.md")
    _show(report, as_json=False)
    click.echo(f"\n{calls} judge calls; plan {plan}, record {project.record.name}, page {page}")
    click.get_current_context().exit(report.exit_code)


def _show(report: DuelReport, *, as_json: bool) -> None:
    from canaryd.duel import pages

    click.echo(json.dumps(report.to_json(), indent=1) if as_json else pages.as_text(report))


def _write_pages(report: DuelReport, *, html: Path | None, markdown: Path | None) -> None:
    from canaryd.duel import pages

    if html:
        html.write_text(pages.as_html(report), encoding="utf-8")
    if markdown:
        markdown.write_text(pages.as_markdown(report), encoding="utf-8")
