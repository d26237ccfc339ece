"""Real processes of the command line, in folders of their own."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from daemons import free_port


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Canaryd = Callable[..., Finished]


@pytest.fixture
def canaryd(tmp_path: Path) -> Canaryd:
    """Run one command of canaryd to its end, in an environment without a configuration or a key."""

    def run(*arguments: str | Path, **variables: str) -> Finished:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        done = subprocess.run(
            [sys.executable, "-m", "canaryd", *map(str, arguments)],
            cwd=tmp_path,
            env={**kept, "HOME": str(tmp_path), **variables},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def port() -> int:
    """A free port of 127.0.0.1."""
    return free_port()


@pytest.fixture(scope="session")
def quick_play(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one quick demo, played once for all workers; a test that changes anything copies it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "quick_play"
    with (shared / "quick_play.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "demo.html").exists():
            play = [sys.executable, "-m", "canaryd", "demo", "--quick", "--dir", folder, "--port", str(free_port())]
            subprocess.run(play, check=True, capture_output=True)
    return folder
