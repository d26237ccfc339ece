"""The contract page names what the program knows, and nothing else."""

import re
from pathlib import Path

from canaryd.cli import COMMANDS
from canaryd.runner.preflight import REASONS
from canaryd.status.check import CHANGED, NO_CHANGE, NOT_JUDGED

PAGE = (Path(__file__).parents[2] / "docs/contract.md").read_text()


def test_every_reason_of_the_preflight_stands_on_the_page() -> None:
    assert [reason for reason in REASONS.values() if f"`{reason}`" not in PAGE] == []


def test_every_command_on_the_page_exists() -> None:
    named = set(re.findall(r"`canaryd (\w+)", PAGE))
    assert named
    assert named <= COMMANDS.keys()


def test_the_exit_codes_are_those_of_the_program() -> None:
    said = [int(code) for code in re.findall(r"\*\*(\d)\*\*", PAGE)]
    assert said == [CHANGED, NOT_JUDGED, NO_CHANGE]
