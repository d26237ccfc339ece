"""What is said beside a result, and what is asked, depends on who is there and on what they want to hear."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
import pytest

from canaryd.colours import has_colours
from canaryd.errors import UsageError
from canaryd.messages import manner, progress, require_consent


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Return yes."""
        return True


@contextmanager
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Put a terminal on all three streams and a command above what is called."""
    stream = Terminal()
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, stream)
    with click.Context(click.Command("run")):
        yield stream


def test_colours_are_for_a_terminal_whose_user_has_not_said_no() -> None:
    assert has_colours(Terminal(), {"TERM": "xterm"})
    assert not has_colours(io.StringIO(), {"TERM": "xterm"})
    assert has_colours(Terminal(), {"NO_COLOR": "", "CANARYD_NO_COLOR": ""})
    for refused in ({"NO_COLOR": "1"}, {"CANARYD_NO_COLOR": "x"}, {"TERM": "dumb"}):
        assert not has_colours(Terminal(), refused)


def test_a_bar_is_for_a_terminal_that_is_not_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    with at_a_terminal(monkeypatch) as terminal:
        with progress("days", length=2) as reached:
            reached(2, 2)
        assert "2/2" in terminal.getvalue()
        quiet, piped = Terminal(), io.StringIO()
        for stream in (quiet, piped):
            manner().quiet = stream is quiet
            monkeypatch.setattr(sys, "stderr", stream)
            with progress("days", length=2) as reached:
                reached(2, 2)
            assert stream.getvalue() == ""


def test_a_person_is_asked_before_something_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(click, "confirm", lambda text, **_: asked.append(text) or "texts" in text)
    with at_a_terminal(monkeypatch):
        require_consent("delete 3 texts", yes=False)
        with pytest.raises(UsageError, match="did not delete the store: the answer was no"):
            require_consent("delete the store", yes=False)
        require_consent("delete the store", yes=True)
        assert asked == ["delete 3 texts for good?", "delete the store for good?"]


@pytest.mark.parametrize("missing", ["a terminal", "the permission"])
def test_nobody_to_ask_is_a_refusal(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    with at_a_terminal(monkeypatch):
        manner().no_input = missing == "the permission"
        if missing == "a terminal":
            monkeypatch.setattr(sys, "stdin", io.StringIO())
        with pytest.raises(UsageError, match="nobody is there to be asked; say --yes"):
            require_consent("delete 3 texts", yes=False)
