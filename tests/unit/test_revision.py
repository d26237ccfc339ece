"""Which commit the running canaryd is of."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from canaryd.revision import of_checkout

GIT = shutil.which("git")


@pytest.mark.skipif(GIT is None, reason="git is not installed")
def test_a_checkout_says_its_commit_and_whether_files_differ(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=me", "-c", "user.email=me@host.test")
        done = subprocess.run(
            [str(GIT), *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "one")
    git("tag", "-a", "v1", "-m", "v1")
    commit = git("rev-parse", "HEAD")
    assert len(commit) == 40
    assert of_checkout(tmp_path) == commit
    (tmp_path / "file").write_text("2")
    assert of_checkout(tmp_path) == f"{commit}-dirty"


def test_what_is_no_checkout_says_nothing(tmp_path: Path) -> None:
    assert of_checkout(tmp_path) is None
