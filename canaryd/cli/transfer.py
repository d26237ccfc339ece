"""`canaryd export` and `canaryd import`: a series out of the store and into one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import click
from sqlalchemy import Connection

from canaryd.cli.context import load_config
from canaryd.errors import UsageError
from canaryd.files import written_whole
from canaryd.wording import counted


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--series", "series_name", required=True, help="Which series.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv", "parquet", "eval"]),
    default="jsonl",
    show_default=True,
    help="jsonl: all of it, for import and verify. csv, parquet: a table of samples. eval: logs of Inspect.",
)
@click.option("--without-texts", is_flag=True, help="Leave out what the model said; digests and grades stay.")
@click.pass_obj
def export(config_file: str | None, out: Path, series_name: str, form: str, without_texts: bool) -> None:
    """Write a series to OUT (`-`: to the standard output), which appears only once it is whole.

    With --format eval OUT is a folder: it gets one log for each arm and day. What each column holds stands in
    docs/store.md.
    """
    from canaryd.store import read
    from canaryd.store.engine import open_store

    config = load_config(config_file)
    with open_store(config.store_url) as store, store.read() as connection:
        read.series(connection, series_name)
        if form == "eval":
            _export_logs(connection, series_name, out=out, with_texts=not without_texts)
        elif str(out) == "-":
            if form == "parquet":
                raise UsageError("Parquet is no text; name a file to write it to")
            sys.stdout.writelines(_lines(connection, series_name, form=form, with_texts=not without_texts))
        else:
            _export_file(connection, series_name, out=out, form=form, with_texts=not without_texts)


def _export_logs(connection: Connection, series: str, *, out: Path, with_texts: bool) -> None:
    from canaryd.store.inspect_log import write_inspect_logs

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: cannot be made a folder ({error.strerror}); name another one") from None
    written = write_inspect_logs(connection, series, folder=out, with_texts=with_texts)
    click.echo(f"{len(written)} logs in {out}")


def _export_file(connection: Connection, series: str, *, out: Path, form: str, with_texts: bool) -> None:
    try:
        with written_whole(out) as partial:
            if form == "parquet":
                from canaryd.store.parquet import write_parquet

                write_parquet(connection, series, path=partial, with_texts=with_texts)
            else:
                with partial.open("w", encoding="utf-8", newline="") as file:
                    file.writelines(_lines(connection, series, form=form, with_texts=with_texts))
    except OSError as error:
        raise UsageError(f"{out}: cannot be written ({error.strerror}); name another file") from None
    click.echo(f"series {series} in {out}")


def _lines(connection: Connection, series: str, *, form: str, with_texts: bool) -> Iterable[str]:
    if form == "csv":
        from canaryd.store.flat import export_csv

        return export_csv(connection, series, with_texts=with_texts)
    from canaryd.store.transfer import export_jsonl

    return (f"{line}\n" for line in export_jsonl(connection, series, with_texts=with_texts))


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--series", "series_name", help="Foreign rows: the name that the series gets.")
@click.option("--tracked", help="Foreign rows: the arm that is judged.")
@click.option("--control", "controls", multiple=True, help="Foreign rows: an arm that it is held against.")
@click.option("--prereg", type=click.Path(path_type=Path), help="Foreign rows: the rule that decides on them.")
@click.option("--column", "columns", multiple=True, metavar="NAME=THEIRS", help="Under which name a column is.")
@click.pass_obj
def import_(
    config_file: str | None,
    file: Path,
    series_name: str | None,
    tracked: str | None,
    controls: tuple[str, ...],
    prereg: Path | None,
    columns: tuple[str, ...],
) -> None:
    """Read a series into the store, which is made where there is none, and mark it as imported.

    FILE is what `canaryd export --format jsonl` wrote, or rows that were measured elsewhere (CSV, TSV, JSON lines,
    Parquet; columns arm, item_id, date, score, and output_tokens, cluster, family where they are known).
    """
    from canaryd.runner.clock import clock_of
    from canaryd.store.engine import open_store
    from canaryd.store.transfer import import_jsonl

    config = load_config(config_file)
    now = clock_of(config).now()
    with open_store(config.store_url, create=True) as store:
        if _is_export(file):
            if series_name or tracked or controls or prereg or columns:
                raise UsageError(f"{file} is an export, which says all of it itself; give no other option")
            with file.open(encoding="utf-8", errors="surrogateescape") as lines:
                click.echo(f"series {import_jsonl(store, lines, now=now)} is imported")
            return
        if not (series_name and tracked and prereg):
            raise UsageError(
                f"{file} is no export of canaryd; to import its rows, give --series, --tracked and --prereg"
            )
        if tracked in controls:
            raise UsageError(f"{tracked!r} is given as --tracked and as --control; an arm has one role")
        from canaryd.compare.rows import read_rows
        from canaryd.files import read_bytes
        from canaryd.foreign import Foreign, import_foreign

        foreign = Foreign(
            series=series_name,
            registration=read_bytes(prereg),
            source=str(prereg),
            roles={tracked: "tracked", **dict.fromkeys(controls, "control")},
            names=_names(columns),
        )
        verdicts = import_foreign(store, read_rows(file), foreign=foreign, now=now)
        click.echo(f"series {series_name} is imported; {counted(len(verdicts), 'window')} decided")


def _names(columns: tuple[str, ...]) -> dict[str, str]:
    from canaryd.compare.side import COLUMNS

    known = ("arm", *COLUMNS)
    names = {}
    for column in columns:
        name, equals, theirs = column.partition("=")
        if not (equals and theirs) or name not in known:
            raise UsageError(
                f"--column is {column!r}, but must be NAME=THEIRS, where NAME is one of {', '.join(known)}"
            )
        names[name] = theirs
    return names


def _is_export(file: Path) -> bool:
    """Return whether a file begins as an export of a series does."""
    try:
        with file.open(encoding="utf-8") as lines:
            header = json.loads(lines.readline())
    except (ValueError, RecursionError, OSError):
        return False
    return isinstance(header, dict) and "format" in header and "schema" in header
