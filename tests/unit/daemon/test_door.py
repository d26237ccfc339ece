"""Who comes in, and what becomes of a web configuration that changes while it is in force."""

from __future__ import annotations

import base64
import os
from itertools import count
from pathlib import Path

import bcrypt
import pytest
from structlog.testing import capture_logs

from canaryd.daemon.door import Door
from canaryd.errors import ConfigError

HASH = bcrypt.hashpw(b"open sesame", bcrypt.gensalt(4)).decode().replace("$2b$", "$2y$")
USERS = f"basic_auth_users:\n  ali: {HASH}\n"
LATER = count(1)


def unheard(is_taken_over: bool) -> None:
    """Take a change for granted."""


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def write(path: Path, text: str) -> None:
    """Write a file at another time than all before it."""
    path.write_text(text)
    os.utime(path, ns=(0, next(LATER)))


def test_only_who_knows_the_password_comes_in(tmp_path: Path) -> None:
    path = tmp_path / "web.yml"
    path.write_text(USERS)
    door = Door(path, on_change=unheard)
    assert door.admits(basic("ali", "open sesame"))
    assert door.admits(basic("ali", "open sesame")), "remembered"
    for refused in (
        None,
        "",
        "Basic ???",
        "Bearer x",
        basic("ali", "open"),
        basic("eve", "open sesame"),
        basic("", ""),
    ):
        assert not door.admits(refused), refused


def test_a_changed_file_counts_from_the_next_request_on(tmp_path: Path) -> None:
    path = tmp_path / "web.yml"
    write(path, "")
    door = Door(path, on_change=unheard)
    assert door.admits(None)
    write(path, USERS)
    assert not door.admits(None)


def test_each_change_is_told_with_whether_it_was_taken_over(tmp_path: Path) -> None:
    path, told = tmp_path / "web.yml", list[bool]()
    write(path, USERS)
    door = Door(path, on_change=told.append)
    door.admits(None)
    assert told == [], "nothing changed"
    write(path, "a: [\n")
    door.admits(None)
    door.admits(None)
    assert told == [False]
    write(path, USERS)
    door.admits(None)
    door.reload()
    assert told == [False, True, True]


@pytest.mark.parametrize(
    ("broken", "said"), [("a: [\n", "web.yml:2: is not YAML"), ("nonsense: 1\n", "web.yml:1: nonsense is unknown")]
)
def test_a_change_that_cannot_be_used_is_logged_once_and_the_last_good_file_stays(
    tmp_path: Path, broken: str, said: str
) -> None:
    path = tmp_path / "web.yml"
    write(path, USERS)
    door = Door(path, on_change=unheard)
    write(path, broken)
    with capture_logs() as logged:
        for _ in range(3):
            assert not door.admits(None)
            assert door.admits(basic("ali", "open sesame"))
    (line,) = logged
    assert (line["log_level"], line["event"]) == ("error", "web configuration not reloaded")
    assert said in line["reason"]
    with pytest.raises(ConfigError, match=r"web\.yml"):
        door.reload()
    path.unlink()
    with capture_logs() as logged:
        assert [door.admits(None), door.admits(None)] == [False, False]
    assert ["cannot be read" in line["reason"] for line in logged] == [True]
    write(path, "")
    assert door.admits(None), "mended"


def test_without_a_file_everyone_comes_in_and_nothing_is_reloaded() -> None:
    door = Door(None, on_change=unheard)
    door.reload()
    assert (door.admits(None), door.tls()) == (True, None)
