"""`canaryd daemon`: the resident process."""

from __future__ import annotations

from pathlib import Path

import click

from canaryd.daemon.signals import Signals
from canaryd.messages import manner
from canaryd.service_config import LOG_LEVELS

_LEVELS = click.Choice(LOG_LEVELS)


@click.command()
@click.option(
    "--web.listen-address",
    "listen",
    multiple=True,
    metavar="IP:PORT",
    help="Where it serves, instead of `listen` under [daemon] of the configuration (else 127.0.0.1:10877); may be "
    "repeated.",
)
@click.option(
    "--web.config.file",
    "web_config",
    type=click.Path(path_type=Path),
    help="TLS and basic auth, as exporter-toolkit writes them.",
)
@click.option(
    "--web.insecure-listen", "insecure", is_flag=True, help="Allow an address that faces other machines without TLS."
)
@click.option(
    "--log-level",
    type=_LEVELS,
    help="The least important line logged, instead of `log_level` under [daemon] (else info); -q means error, -v "
    "debug.",
)
@click.pass_obj
def daemon(
    config_file: str | None, listen: tuple[str, ...], web_config: Path | None, insecure: bool, log_level: str | None
) -> None:
    """Measure every series each day at its time, decide its windows, and serve metrics and reports, until told to stop.

    Ctrl-C or SIGTERM lets calls in flight end and keeps the slot open, so that it goes on after a restart the same day;
    it exits 0. A second one ends it at once, with 130. SIGHUP reads the configuration again; a change of what is
    registered is refused. Logs go to stderr.
    """
    signals = Signals()  # before the imports, which take a while
    from canaryd.cli.context import find_config
    from canaryd.daemon.resident import Options, run_daemon

    level = log_level or ("error" if manner().quiet else "debug" if manner().verbose else None)
    run_daemon(Options(find_config(config_file), listen, web_config, insecure, level), signals=signals)
