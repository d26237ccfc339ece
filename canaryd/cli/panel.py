"""`canaryd panel`: the frozen questions."""

from __future__ import annotations

from pathlib import Path

import click

from canaryd.errors import ConfigError, MeasurementRefused, UsageError


@click.group()
def panel() -> None:
    """Lint, freeze and verify a panel."""


@panel.command("lint")
@click.argument("path", type=click.Path(path_type=Path))
def lint_command(path: Path) -> None:
    """Say what is wrong with the panel at PATH, each with file and line; exit 78 when there is anything."""
    from canaryd import graders
    from canaryd.panel import lint, read

    data, system = read(str(path))
    complaints = lint(data, system, graders=graders, path=str(path))
    for complaint in complaints:
        click.echo(complaint)
    if complaints:
        raise ConfigError(f"{path}: {len(complaints)} complaints; mend them before you freeze the panel")
    click.echo(f"{path}: clean")


@panel.command("freeze")
@click.argument("path", type=click.Path(path_type=Path))
def freeze_command(path: Path) -> None:
    """Write the lock of the panel at PATH; an existing lock of another content is never overwritten."""
    from canaryd import graders
    from canaryd.panel import freeze, lint, load, lock_path, read

    data, system = read(str(path))
    if complaints := lint(data, system, graders=graders, path=str(path)):
        raise ConfigError(complaints[0])
    loaded = load(str(path), graders=graders)
    lock, content = Path(lock_path(str(path))), freeze(loaded)
    if lock.exists() and lock.read_bytes() != content:
        raise UsageError(
            f"{lock}: freezes another content already; a changed panel is a new one, so give it a new version "
            "and a new file name (`canaryd panel verify` lists what differs)"
        )
    lock.write_bytes(content)
    click.echo(f"{lock}: {len(loaded.items)} items, {loaded.digest}")


@panel.command("verify")
@click.argument("path", type=click.Path(path_type=Path))
def verify_command(path: Path) -> None:
    """Compare the panel at PATH with its lock; exit 69 and name what differs."""
    from canaryd import graders
    from canaryd.files import read_bytes
    from canaryd.panel import load, lock_path, verify

    loaded = load(str(path), graders=graders)
    differences = verify(loaded, read_bytes(Path(lock_path(str(path)))))
    for difference in differences[1:]:
        click.echo(difference, err=True)
    if differences:
        raise MeasurementRefused(differences[0], reason="panel_mismatch")
    click.echo(f"{path}: is the frozen panel, {loaded.digest}")
