"""A machine under a live systemd: this one's own operating system, started in a container over a throw-away overlay."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from daemons import PATIENCE_S, wait_for

ROOT = Path(__file__).parents[2]
SYS_ADMIN = 21
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
#: The distribution's interpreter of this version, else the one that runs this test, which may lean on files of root's.
PREFIX = "/usr" if Path("/usr/bin", PYTHON).exists() else sys.base_prefix
LIBRARY = f"lib/{PYTHON}/site-packages"
#: A virtual environment as `python3 -m venv /opt/canaryd` makes it, of what this test runs with.
INSTALL = f"""
set -eu
mkdir -p /opt/canaryd/bin /opt/canaryd/{LIBRARY}
ln -s /opt/python/bin/{PYTHON} /opt/canaryd/bin/python
echo 'home = /opt/python/bin' >/opt/canaryd/pyvenv.cfg
printf '/opt/checkout\\n/opt/packages\\n' >/opt/canaryd/{LIBRARY}/here.pth
printf '#!/opt/canaryd/bin/python\\nfrom canaryd.cli import main\\nmain()\\n' >/opt/canaryd/bin/canaryd
chmod 755 /opt/canaryd/bin/canaryd
"""


class Machine:
    """The running container; commands are run in it as root."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def run(self, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command in an environment of its own, `given` on its standard input, and return how it ended."""
        inside = [
            "nsenter",
            f"--target={self._pid}",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--cgroup",
            "--root",
            "--wd",
        ]
        clean = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "SYSTEMD_PAGER="]
        return subprocess.run(
            [*inside, *clean, *command],
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def out(self, *command: str) -> str:
        """Return what a command prints, which must end well."""
        done = self.run(*command)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def put(self, path: str, text: str) -> None:
        """Write a file, and the folder that it is in."""
        done = self.run("sh", "-c", 'mkdir -p "$(dirname "$1")" && cat >"$1"', "sh", path, given=text)
        assert done.returncode == 0, done.stderr

    def shown(self, unit: str, key: str) -> str:
        """Return a property of a unit."""
        return self.out("systemctl", "show", "--property", key, "--value", unit).strip()


@contextmanager
def booted(folder: Path, nspawn: str) -> Iterator[Machine]:
    """Yield a machine with canaryd in /opt/canaryd and this checkout in /opt/checkout; nothing it writes is kept."""
    if os.geteuid() != 0 or not _may_administer():
        pytest.skip("a container needs root with CAP_SYS_ADMIN")
    view = folder / "view"
    view.mkdir()
    bound = {PREFIX: "/opt/python", sysconfig.get_path("purelib"): "/opt/packages", str(ROOT): "/opt/checkout"}
    command = [
        *(nspawn, f"--directory={view}", "--volatile=overlay", "--register=no", "--keep-unit", "--console=pipe"),
        *(f"--machine=canaryd-{os.getpid()}", "--link-journal=no", "--quiet"),
        *(f"--bind-ro={source}:{place}" for source, place in bound.items()),
        *("--boot", "systemd.unit=basic.target"),
    ]
    # systemd-nspawn refuses the root directory itself, but not the same files at another place.
    start = f'mount --make-rprivate / && mount --bind / "{view}" && exec "$@"'
    with (folder / "boot.log").open("wb") as log:
        container = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", start, "sh", *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        machine = Machine(wait_for(lambda: _first_process(container), "the container's first process"))
        wait_for(
            lambda: machine.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"), "systemd"
        )
        machine.out("sh", "-c", INSTALL)
        yield machine
    finally:
        container.terminate()
        container.wait(PATIENCE_S)


def _may_administer() -> bool:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:")]
    return bool(int(line.split()[1], 16) >> SYS_ADMIN & 1)


def _first_process(container: subprocess.Popen[bytes]) -> int | None:
    """Return the container's init, the only child of systemd-nspawn, once it is systemd."""
    assert container.poll() is None, "the container has ended"
    children = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()
    started = [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd"]
    return started[0] if started else None
