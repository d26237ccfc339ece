"""`canaryd metrics`: the metrics of the store, for those without a resident process."""

from __future__ import annotations

from pathlib import Path

import click

from canaryd.cli.context import load_config
from canaryd.files import require_replaceable


@click.command()
@click.option(
    "--textfile",
    type=click.Path(path_type=Path),
    help="Write them to this file in one step, for node_exporter's textfile collector.",
)
@click.pass_obj
def metrics(config_file: str | None, textfile: Path | None) -> None:
    """Print what the store knows in Prometheus' text format, or write it to a file.

    It is what the daemon serves, without what only a running daemon has. Run it after `canaryd run` from a timer.
    """
    from prometheus_client import CollectorRegistry, generate_latest, write_to_textfile

    from canaryd.metrics.collector import SnapshotCollector
    from canaryd.metrics.money import purse_of
    from canaryd.metrics.snapshot import take_snapshot
    from canaryd.runner.clock import clock_of
    from canaryd.schedule import policy_of
    from canaryd.store.engine import open_store

    if textfile is not None:
        require_replaceable(textfile)
    config = load_config(config_file)
    names = [series.name for series in config.series]
    with open_store(config.store_url) as store:
        snapshot = take_snapshot(
            store, names, policy=policy_of(config), now=clock_of(config).now(), purse=purse_of(config)
        )
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: snapshot))
    if textfile is None:
        click.echo(generate_latest(registry).decode(), nl=False)
    else:
        write_to_textfile(str(textfile), registry)
