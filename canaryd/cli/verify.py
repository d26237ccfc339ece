"""`canaryd verify`: every number again, from the raw rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from canaryd.cli.context import load_config
from canaryd.errors import UsageError


@click.command()
@click.argument("export", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--series", "series_name", help="Only this series.")
@click.pass_obj
def verify(config_file: str | None, export: Path | None, series_name: str | None) -> None:
    """Recompute ledger, panel, registration, verdicts and early warning of every series from its raw rows.

    With EXPORT, a file of `canaryd export --format jsonl`, that series is verified without a project and without the
    store it came from. Prints the head of each ledger: whoever keeps it can prove later that nothing before it was
    changed. Exits 65 and names the first row that differs, is missing or was added.
    """
    from canaryd.verify import require_every_series, verify_export, verify_series

    if export is not None:
        if series_name is not None:
            raise UsageError("--series chooses from a store, but an export holds one series; leave it out")
        with export.open(encoding="utf-8", errors="surrogateescape") as lines:
            click.echo(str(verify_export(lines, now=datetime.now(UTC))))
        return
    from canaryd.store import read
    from canaryd.store.engine import open_store

    config = load_config(config_file)
    with open_store(config.store_url) as store, store.read() as connection:
        require_every_series(connection)
        names = [series_name] if series_name else read.series_names(connection)
        if not names:
            raise UsageError(f"no series is registered in {store.name}; run `canaryd register`")
        for name in names:
            click.echo(str(verify_series(connection, name)))
