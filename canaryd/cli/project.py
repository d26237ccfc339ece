"""`canaryd init`: a working project in a new folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from canaryd.errors import UsageError
from canaryd.resources import resource

FILES = {
    "config.toml": "config.example.toml",
    "prereg.toml": "prereg.example.toml",
    "panel/starter.jsonl": "panel/starter.jsonl",
    "panel/starter.system.txt": "panel/starter.system.txt",
    "panel/starter.lock": "panel/starter.lock",
}


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
def init(directory: Path) -> None:
    """Write a working project into DIRECTORY: configuration, registration and the starter panel.

    An existing file is never overwritten.
    """
    for name in FILES:
        if (directory / name).exists():
            raise UsageError(f"{directory / name}: exists already; choose another folder, nothing was written")
    for name, source in FILES.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(resource(source), target)
    click.echo(f"wrote a project into {directory}")
    click.echo("next:")
    click.echo(f"  export CANARYD_CONFIG={(directory / 'config.toml').resolve()}")
    click.echo("  edit config.toml: which model is tracked, which is the control, where the key is")
    click.echo("  canaryd db upgrade && canaryd register && canaryd run --slot today")
