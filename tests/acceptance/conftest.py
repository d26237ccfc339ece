"""Real processes of the command line, in folders of their own."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


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
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number
