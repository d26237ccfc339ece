"""The options of every command: before its name or after it, and each of them does what it says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from canaryd.cli import cli
from canaryd.cli import reading as module
from canaryd.errors import ConfigError, UsageError

SCORES = "item_id,score,date\n" + "".join(f"i{n},{n % 2},2027-01-0{n + 1}\n" for n in range(8))


@pytest.fixture
def scores(tmp_path: Path) -> str:
    """Return a file that `compare` warns of when it is given twice."""
    path = tmp_path / "scores.csv"
    path.write_text(SCORES)
    return str(path)


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_configuration_is_named_before_or_after(place: str) -> None:
    option, command = ["--config", "/no/such.toml"], ["config", "show"]
    done = CliRunner().invoke(cli, option + command if place == "before" else command + option)
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("/no/such.toml: there is no such configuration file")


def test_after_a_command_wins_over_before_it() -> None:
    done = CliRunner().invoke(cli, ["--config", "/no/one.toml", "config", "--config", "/no/two.toml", "show"])
    assert str(done.exception).startswith("/no/two.toml")


def test_quiet_leaves_the_result_and_no_message(scores: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loud = CliRunner().invoke(cli, ["compare", scores, scores])
    assert "warning: " in loud.stderr
    for arguments in (["-q", "compare", scores, scores], ["compare", "--quiet", scores, scores]):
        quiet = CliRunner().invoke(cli, arguments)
        assert (quiet.stdout, quiet.stderr, quiet.exit_code) == (loud.stdout, "", loud.exit_code)
    monkeypatch.setenv("CANARYD_QUIET", "1")
    assert CliRunner().invoke(cli, ["compare", scores, scores]).stderr == ""


def test_verbose_says_what_is_read(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("x")
    done = CliRunner().invoke(cli, ["status", "-v", "--config", str(config)])
    assert done.stderr == f"canaryd: the configuration is {config}\n"
    assert CliRunner().invoke(cli, ["status", "--config", str(config)]).stderr == ""


def test_quiet_and_verbose_contradict_each_other() -> None:
    assert isinstance(CliRunner().invoke(cli, ["-q", "status", "-v"]).exception, UsageError)


def test_what_children_need_goes_through_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARYD_CREDENTIALS_DIR", "")
    monkeypatch.setenv("CANARYD_NO_COLOR", "")
    CliRunner().invoke(cli, ["completion", "bash", "--credentials-dir", str(tmp_path), "--no-color"])
    assert (os.environ["CANARYD_CREDENTIALS_DIR"], os.environ["CANARYD_NO_COLOR"]) == (str(tmp_path), "1")


def test_a_status_has_colours_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_said", lambda *_, **__: "● canaryd\n\n× main  REGRESSION\n! a × b")
    monkeypatch.setattr(module, "has_colours", lambda stream, env: "CANARYD_NO_COLOR" not in env)
    coloured = CliRunner().invoke(cli, ["status"]).stdout
    assert re.findall(r"\x1b\[(\d+)m(.)\x1b\[0m", coloured) == [("32", "●"), ("31", "×"), ("33", "!")]
    monkeypatch.setenv("CANARYD_NO_COLOR", "1")
    assert "\x1b" not in CliRunner().invoke(cli, ["status"]).stdout
