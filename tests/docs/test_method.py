"""The method page: every command on it is run, and prints the figures that stand below it."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from canaryd.demo.server import free_port

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/method.md").read_text()


class Block(NamedTuple):
    """A console block of the page: its commands, and the lines that they print among others."""

    long: bool
    commands: list[str]
    printed: list[str]


def blocks() -> list[Block]:
    found = []
    for mark, text in re.findall(r"(<!-- long -->\n)?```console\n(.*?)```", PAGE, flags=re.DOTALL):
        lines = text.splitlines()
        commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        found.append(Block(bool(mark), commands, [line for line in lines if line and not line.startswith("$ ")]))
    return found


def output_of(block: Block, folder: Path) -> list[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    printed: list[str] = []
    for command in block.commands:
        # The demo's models listen on a port of their own, which may be taken on this machine; no figure depends on it.
        port = ["--port", str(free_port())] if command.startswith("canaryd demo") else []
        done = subprocess.run(
            [*command.split(), *port],
            cwd=ROOT if "tests/" in command else folder,
            env={"PATH": path, "HOME": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        printed += done.stdout.splitlines()
    return printed


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.commands[-1].split(" --")[0], marks=[pytest.mark.soak] if block.long else [])
        for block in blocks()
    ],
)
def test_a_command_of_the_page_prints_the_lines_below_it(block: Block, tmp_path: Path) -> None:
    assert block.printed
    following = iter(output_of(block, tmp_path))
    missing = [line for line in block.printed if not any(line == printed for printed in following)]
    assert not missing


def test_the_examples_of_the_page() -> None:
    failed, tried = doctest.testfile(str(ROOT / "docs/method.md"), module_relative=False)
    assert (failed, tried > 10) == (0, True)


def test_every_bold_figure_stands_in_the_output_of_a_command() -> None:
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    outputs = "\n".join(re.findall(r"```(?:console|python)\n(.*?)```", PAGE, flags=re.DOTALL))
    figures = re.findall(r"\*\*([\d.]+(?: %| days)?)\*\*", prose)
    assert len(figures) > 5
    assert [figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", outputs)] == []


def test_the_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`?((?:canaryd|tests|docs)/[\w/]+\.\w+|prereg\.example\.toml)", PAGE)
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []
