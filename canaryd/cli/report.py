"""`canaryd report`: the whole argument of a series on one page."""

from __future__ import annotations

from pathlib import Path

import click

from canaryd.cli.context import load_config


@click.command()
@click.option("--series", "series_name", help="Only this series.")
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("report"),
    show_default=True,
    help="Where the files are written.",
)
@click.option(
    "--include-invalid",
    is_flag=True,
    help="Say too, in a section of its own, what each decided window would have come to with invalid samples counted.",
)
@click.pass_obj
def report(config_file: str | None, series_name: str | None, folder: Path, include_invalid: bool) -> None:
    """Write the report of every registered series: one HTML page without network, Markdown, and the pictures.

    It says the result in one sentence, whatever it is, with every clause, interval and limit behind it, and holds no
    question and no answer.
    """
    from canaryd.report.render import write_report
    from canaryd.status import check_status, read_status
    from canaryd.store.engine import open_store

    config = load_config(config_file)
    checked = check_status(read_status(config, series_name))
    with open_store(config.store_url) as store:
        for series in checked.series:
            _, page = write_report(
                store, series.series, headline=series.sentence, folder=folder, include_invalid=include_invalid
            )
            click.echo(series.sentence)
            if include_invalid:
                click.echo("  with invalid samples counted in a section of its own, which holds no verdicts")
            click.echo(f"  {page}")
            click.echo(f"  {page.with_suffix('.md')}")
