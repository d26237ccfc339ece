"""One line per event, its priority where the journal reads it, and never a secret."""

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from canaryd.daemon.logs import configure_logs, is_journal, set_level
from canaryd.providers.secret import Secret

KEY = "zq-7f3e9a1c5b"


@pytest.fixture
def lines() -> Iterator[tuple[io.StringIO, list[str]]]:
    stream, levels = io.StringIO(), []
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logs("info", count=levels.append, secrets=[Secret(KEY, source="test")], stream=stream)
    yield stream, levels
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("canaryd").setLevel(logging.NOTSET)
    structlog.reset_defaults()


def logged(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_no_sink_gets_a_secret_whatever_way_it_comes(lines: tuple[io.StringIO, list[str]]) -> None:
    log = structlog.get_logger("canaryd.test")

    def fails() -> None:
        local = f"Bearer {KEY}"
        raise RuntimeError(f"GET https://user:{KEY}@host/?k={local}")

    try:
        fails()
    except RuntimeError:
        log.exception("failed", header={"Authorization": f"Bearer {KEY}"}, url=f"https://x/?q={KEY}", api_key=KEY)
    log.info("sk-abcdefgh12345 was sent", output_tokens=17, items=[KEY, "fine"])
    logging.getLogger("library").warning("stdlib %s", KEY)
    text = lines[0].getvalue()
    assert KEY not in text
    assert "sk-abcdefgh" not in text
    failed, sent, library = logged(lines[0])
    assert failed["api_key"] == "***"
    assert failed["exception"][0]["exc_type"] == "RuntimeError"
    assert "locals" not in failed["exception"][0]["frames"][0]
    assert (sent["output_tokens"], sent["items"]) == (17, ["***", "fine"])
    assert library["event"] == "stdlib ***"


@pytest.mark.parametrize("library", ["openai", "httpcore2.http11", "sqlalchemy.engine", "matplotlib.font_manager"])
def test_no_level_lets_a_library_talk(library: str, lines: tuple[io.StringIO, list[str]]) -> None:
    set_level("debug")
    structlog.get_logger("canaryd.test").debug("shown")
    logging.getLogger(library).info("a whole request")
    logging.getLogger(library).warning("a warning")
    assert [each["event"] for each in logged(lines[0])] == ["shown", "a warning"]
    set_level("error")
    structlog.get_logger("canaryd.test").warning("not shown")
    assert len(logged(lines[0])) == 2


def test_lines_are_counted_by_level_and_libraries_are_quiet(lines: tuple[io.StringIO, list[str]]) -> None:
    log = structlog.get_logger("canaryd.test")
    log.debug("not shown")
    log.info("one")
    log.error("two")
    logging.getLogger("openai").info("a whole request")
    logging.getLogger("sqlalchemy.engine").info("a statement")
    assert lines[1] == ["info", "error"]
    assert [each["event"] for each in logged(lines[0])] == ["one", "two"]


def test_the_journal_gets_priorities(tmp_path: Path) -> None:
    with (tmp_path / "journal").open("w+") as stream:
        file = os.fstat(stream.fileno())
        assert is_journal(stream, {"JOURNAL_STREAM": f"{file.st_dev}:{file.st_ino}"})
        assert not is_journal(stream, {"JOURNAL_STREAM": f"{file.st_dev}:1"})
        assert not is_journal(stream, {})
    assert not is_journal(io.StringIO(), {"JOURNAL_STREAM": "1:1"})


def test_a_priority_stands_before_the_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with (tmp_path / "journal").open("w+") as stream:
        file = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{file.st_dev}:{file.st_ino}")
        configure_logs("info", count=lambda _: None, stream=stream)
        structlog.get_logger("canaryd.test").warning("careful")
        structlog.get_logger("canaryd.test").info("fine")
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    assert [line[:4] for line in (tmp_path / "journal").read_text().splitlines()] == ["<4>{", "<6>{"]


@pytest.mark.parametrize(("refused", "has_colours"), [("", True), ("1", False)])
def test_a_terminal_gets_lines_for_a_person_in_colour_unless_refused(
    lines: tuple[io.StringIO, list[str]], monkeypatch: pytest.MonkeyPatch, refused: str, has_colours: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("CANARYD_NO_COLOR", refused)
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    configure_logs("info", count=lambda _: None, stream=terminal)
    structlog.get_logger("canaryd.test").info("said")
    assert "said" in terminal.getvalue()
    assert ("\x1b[" in terminal.getvalue()) is has_colours
