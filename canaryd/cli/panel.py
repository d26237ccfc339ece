"""`canaryd panel`: the frozen questions."""

from __future__ import annotations

from pathlib import Path

import click

from canaryd.errors import ConfigError, MeasurementRefused, UsageError
from canaryd.wording import counted


@click.group()
def panel() -> None:
    """Generate, lint, freeze, verify, show and compare panels."""


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
        raise ConfigError(f"{path}: {counted(len(complaints), 'complaint')}; mend them before you freeze the panel")
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
            f"and a new file name (`canaryd panel verify {path}` lists what differs)"
        )
    lock.write_bytes(content)
    click.echo(f"{lock}: {counted(len(loaded.items), 'item')}, {loaded.digest}")


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


@panel.command("generate")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--seed", required=True, help="Any text; the same seed, size and families give the same bytes.")
@click.option("--size", type=click.IntRange(1, 5000), default=120, show_default=True, help="How many items.")
@click.option("--families", help="Which families, separated by commas (default all); --families ? lists them.")
@click.option("--version", default="1", show_default=True, help="Version in the header.")
@click.option("--licence", default="CC0-1.0", show_default=True, help="Licence in the header.")
def generate_command(*, path: Path, seed: str, size: int, families: str | None, version: str, licence: str) -> None:
    """Write a generated panel to PATH (NAME.jsonl) with its system prompt beside it; nothing is overwritten.

    The header holds a commitment to the seed, so that a private seed can be published later and checked.
    """
    from canaryd.generators import FAMILIES, generate
    from canaryd.panel import system_path

    if families == "?":
        raise UsageError(f"--families takes any of {', '.join(FAMILIES)}")
    chosen = tuple(families.split(",")) if families else tuple(FAMILIES)
    if unknown := [name for name in chosen if name not in FAMILIES]:
        raise UsageError(f"--families names {unknown[0]!r}, which does not exist; there are {', '.join(FAMILIES)}")
    system = Path(system_path(str(path)))
    if existing := next((file for file in (path, system) if file.exists()), None):
        raise UsageError(f"{existing}: exists already; choose another path, nothing was written")
    try:
        made = generate(seed, size=size, name=path.stem, version=version, licence=licence, families=chosen)
    except ValueError as error:
        raise UsageError(f"--size {size}: {error}") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.items)
    system.write_bytes(made.system)
    click.echo(f"{path}: {counted(size, 'item')} of {counted(len(chosen), 'family')}")
    click.echo(f"next: canaryd panel freeze {path}, or canaryd calibrate screen {path} to choose among them first")


@panel.command("show")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("item_id", required=False)
def show_command(path: Path, item_id: str | None) -> None:
    """List the items of the panel at PATH, or print one whole, with its prompt, target and grader."""
    from canaryd import graders
    from canaryd.panel import load

    loaded = load(str(path), graders=graders)
    if item_id is None:
        for item in loaded.items:
            kind = "sentinel" if item.sentinel else item.family
            click.echo(f"{item.item_id}\t{kind}\t{item.cluster}\t{item.grader.type}")
        return
    found = next((item for item in loaded.items if item.item_id == item_id), None)
    if found is None:
        raise UsageError(f"{path}: has no item {item_id!r}; `canaryd panel show {path}` lists them")
    click.echo(f"id       {found.item_id} (line {loaded.lines[item_id]})")
    click.echo(f"family   {found.family or 'none, a sentinel'}\ncluster  {found.cluster}")
    click.echo(f"grader   {found.grader.type} {dict(found.grader.options)}")
    click.echo(f"target   {found.target!r}\nprompt\n{found.prompt}")


@panel.command("diff")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
def diff_command(old: Path, new: Path) -> None:
    """Say what differs between the panels at OLD and NEW, part by part; silent when they measure the same."""
    from canaryd import graders
    from canaryd.panel import diff, load

    for sentence in diff(load(str(old), graders=graders), load(str(new), graders=graders)):
        click.echo(sentence)
