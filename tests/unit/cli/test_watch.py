"""`canaryd status --watch`: it goes on without a store, and Ctrl-C ends it in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from canaryd.cli import cli
from canaryd.cli import reading as module
from canaryd.errors import StoreUnavailable


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Watch through the given refreshes, an error being raised, and press Ctrl-C after the last."""

    def run(*refreshes: str | Exception) -> Any:
        left = list(refreshes)

        def say(*_: Any, **__: Any) -> str:
            found = left.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        def sleep(_seconds: float) -> None:
            if not left:
                raise KeyboardInterrupt

        monkeypatch.setattr(module, "_said", say)
        monkeypatch.setattr(module.time, "sleep", sleep)
        return CliRunner().invoke(cli, ["status", "--watch"])

    return run


def test_a_store_that_goes_and_comes_back_is_watched_on(watch: Callable[..., Any]) -> None:
    watched = watch("all is well", StoreUnavailable("store x does not exist"), "all is well again")
    assert watched.stdout == "all is well\nall is well again\n"
    assert watched.stderr == "canaryd: store x does not exist\n\ncanaryd: not watched any more\n"
    assert watched.exit_code == 130


def test_what_cannot_be_read_at_all_ends_it(watch: Callable[..., Any]) -> None:
    watched = watch(StoreUnavailable("store x does not exist"))
    assert isinstance(watched.exception, StoreUnavailable)
    assert watched.stdout == ""
