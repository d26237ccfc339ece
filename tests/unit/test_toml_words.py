"""A value that is refused is shown as its author wrote it, and not as Python sees it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from canaryd import config, prereg
from canaryd.duel.registration import parse_plan
from canaryd.errors import ConfigError
from canaryd.resources import resource

ROOT = Path(__file__).parents[2]
VALUES = ("true", "-1", "nan", "2026-01-01", "2026-01-01T00:00:00Z", "10:00:00", "[1, true]", "{a = true}")
PYTHON = re.compile(r"datetime|\bTrue\b|\bFalse\b|\bNone\b|<class|\{'|\['|\(\d+,")


def everything_in(example: str) -> str:
    """Return an example with what it comments out."""
    return re.sub(r"^# (?=\[|\w+ +=)", "", (ROOT / example).read_text(), flags=re.MULTILINE)


def spoilt(text: str) -> Iterator[str]:
    """Yield the text with each of its values replaced by each of VALUES."""
    for assigned in re.finditer(r"^(\s*[\w.-]+\s*=\s*)(.*)$", text, re.MULTILINE):
        for value in VALUES:
            yield f"{text[: assigned.start(2)]}{value}{text[assigned.end(2) :]}"


FILES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "config": (everything_in("config.example.toml"), lambda text: config.parse(text, path=ROOT / "config.toml")),
    "prereg": (
        resource("prereg.example.toml").read_text(),
        lambda text: prereg.parse(text.encode(), source="prereg.toml"),
    ),
    "duel": (
        (ROOT / "examples/duel/duel.toml").read_text(),
        lambda text: parse_plan(text.encode(), source="duel.toml"),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_no_refusal_speaks_python(name: str) -> None:
    text, parse = FILES[name]
    refusals = []
    for one in spoilt(text):
        try:
            parse(one)
        except ConfigError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert [said for said in refusals if PYTHON.search(said)] == []
