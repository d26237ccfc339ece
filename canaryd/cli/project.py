"""`canaryd init`: a working project in a new folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from canaryd.errors import UsageError
from canaryd.resources import resource

_EXAMPLE = "prereg.example.toml"
FILES = {
    "config.toml": "config.example.toml",
    "prereg.toml": _EXAMPLE,
    "panel/starter.jsonl": "panel/starter.jsonl",
    "panel/starter.system.txt": "panel/starter.system.txt",
    "panel/starter.lock": "panel/starter.lock",
}
SIMULATED_FILES = {
    "config.toml": "examples/simulated/config.toml",
    "clock.txt": "examples/simulated/clock.txt",
    "prereg.toml": _EXAMPLE,
}
#: What a registration of simulated models says otherwise: a calendar of 40 days, what so few days can see, fewer
#: simulations, and positive controls that such a model reacts to.
_SHORT = {"baseline_days": 10, "window_days": 10, "horizon_days": 40, "target": 0.15, "series": 500}
_CONTROLS = """\
controls = [
    { name = "worse", options = { eras = [{ from = "2027-01-01", drop = 0.3 }] } },
    { name = "swapped", model = "weak", options = { eras = [{ from = "2027-01-01", drop = 0.35 }] } },
]
"""


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--simulated", is_flag=True, help="With simulated models and a calendar of its own, for `rehearse`.")
def init(directory: Path, simulated: bool) -> None:
    """Write a working project into DIRECTORY: configuration, registration and the starter panel.

    An existing file is never overwritten.
    """
    files = SIMULATED_FILES if simulated else FILES
    for name in files:
        if (directory / name).exists():
            raise UsageError(f"{directory / name}: exists already; choose another folder, nothing was written")
    for name, source in files.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        content = resource(source).read_bytes()
        target.write_bytes(_short(content) if simulated and source == _EXAMPLE else content)
    click.echo(f"wrote a project into {directory}")
    click.echo("next:")
    click.echo(f"  export CANARYD_CONFIG={(directory / 'config.toml').resolve()}")
    for line in _next_of(directory) if simulated else _NEXT:
        click.echo(f"  {line}")


_NEXT = (
    "edit config.toml: which model is tracked, which is the control, where the key is",
    "canaryd db upgrade && canaryd register --start today && canaryd doctor && canaryd run",
)


def _next_of(directory: Path) -> Iterator[str]:
    yield f'canaryd panel generate {directory}/panel/pool.jsonl --seed "a text only you know"'
    yield "canaryd calibrate screen && canaryd calibrate confirm"
    yield f"canaryd calibrate design --out {directory}/panel/mine.jsonl"
    yield "canaryd register && canaryd rehearse --days 40 && canaryd report"


def _short(example: bytes) -> bytes:
    """Return the example registration for simulated models."""
    text = example.decode()
    for key, value in _SHORT.items():
        text = re.sub(rf"(?m)^{key} = [\d.]+", f"{key} = {value}", text, count=1)
    return re.sub(r"(?ms)^controls = \[.*?^\]\n", _CONTROLS, text, count=1).encode()
