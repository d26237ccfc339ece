"""The units, judged by systemd itself, and the script that installs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from canaryd.config import parse
from canaryd.prereg.parse import load as load_prereg
from canaryd.runner.project import frozen_panel
from canaryd.service_config import Backup

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "deploy" / "systemd"
NAMES = ("canaryd.service", "canaryd-sandbox.socket", "canaryd-sandbox@.service")

Tool = Callable[..., str]


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """A folder with the units, their programs replaced by ones that exist on every machine."""
    for name in NAMES:
        text = (UNITS / name).read_text()
        (tmp_path / name).write_text(text.replace("/opt/canaryd/bin/canaryd", "/bin/true"))
    return tmp_path


def analyze(tool: str, *arguments: str | Path, cwd: Path) -> tuple[int, str]:
    environment = os.environ | {"SYSTEMD_UNIT_PATH": f"{cwd}:", "SYSTEMD_LOG_LEVEL": "warning"}
    command = [tool, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)
    return done.returncode, done.stdout + done.stderr


def test_systemd_understands_every_line(installed: Tool, units: Path) -> None:
    tool = installed("systemd-analyze")
    code, said = analyze(tool, "verify", "--man=no", *(units / name for name in NAMES), cwd=units)
    ours = [line for line in said.splitlines() if "canaryd" in line and "not found" not in line]
    assert (code, ours) == (0, []), said


def test_a_line_that_systemd_does_not_know_is_noticed(installed: Tool, units: Path) -> None:
    service = units / "canaryd.service"
    service.write_text(service.read_text() + "\n[Service]\nProtectEverything=yes\n")
    _, said = analyze(installed("systemd-analyze"), "verify", "--man=no", service, cwd=units)
    assert "ProtectEverything" in said


@pytest.mark.parametrize(("name", "threshold"), [("canaryd.service", 15), ("canaryd-sandbox@.service", 5)])
def test_the_hardening_does_not_get_weaker(installed: Tool, units: Path, name: str, threshold: int) -> None:
    tool = installed("systemd-analyze")
    code, said = analyze(tool, "security", "--offline=true", f"--threshold={threshold}", units / name, cwd=units)
    assert code == 0, said


def test_bubblewrap_inside_the_unit_costs_hardening(installed: Tool, units: Path) -> None:
    service = units / "canaryd.service"
    service.write_text(service.read_text() + "\n" + (UNITS / "canaryd-bwrap.conf").read_text())
    code, _ = analyze(installed("systemd-analyze"), "security", "--offline=true", "--threshold=15", service, cwd=units)
    assert code != 0
    code, said = analyze(
        installed("systemd-analyze"), "security", "--offline=true", "--threshold=30", service, cwd=units
    )
    assert code == 0, said


def script(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [UNITS / "install.sh", *arguments],
        env={"PATH": os.environ["PATH"], "DESTDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_installing_twice_is_installing_once(tmp_path: Path) -> None:
    assert script(tmp_path).returncode == 0
    once = tree(tmp_path)
    assert set(once) == {
        "etc/canaryd/config.toml",
        "etc/canaryd/prereg.toml",
        *(f"etc/canaryd/panel/starter.{kind}" for kind in ("jsonl", "lock", "system.txt")),
        "usr/sbin/canaryd-service",
        "etc/systemd/system/canaryd.service.d/credentials.conf",
        "usr/lib/canaryd/sandbox_child.py",
        "usr/lib/sysusers.d/canaryd.conf",
        "usr/lib/tmpfiles.d/canaryd.conf",
        *(f"usr/lib/systemd/system/{name}" for name in NAMES),
    }
    assert script(tmp_path).returncode == 0
    assert tree(tmp_path) == once


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make users, if below a folder of the test")
def test_the_user_and_the_folders_are_there_before_the_first_start(installed: Tool, tmp_path: Path) -> None:
    assert script(tmp_path).returncode == 0
    for tool, *options in (("systemd-sysusers",), ("systemd-tmpfiles", "--create")):
        done = subprocess.run([installed(tool), *options, f"--root={tmp_path}", "canaryd.conf"], check=False)
        assert done.returncode == 0, tool
    (user,) = [line.split(":") for line in (tmp_path / "etc/passwd").read_text().splitlines() if "canaryd" in line]
    store = (tmp_path / "var/lib/canaryd").stat()
    assert (store.st_mode & 0o777, store.st_uid, store.st_gid) == (0o750, int(user[2]), int(user[3]))
    assert (tmp_path / "etc/credstore").stat().st_mode & 0o777 == 0o700


def test_the_installed_configuration_writes_where_the_unit_may(tmp_path: Path) -> None:
    assert script(tmp_path).returncode == 0
    text = re.sub(
        r"(?m)^# (\[(?:backup|export)\]|folder|file)", r"\1", (tmp_path / "etc/canaryd/config.toml").read_text()
    )
    config = parse(text, path=Path("/etc/canaryd/config.toml"))
    assert config.store_url == "sqlite:////var/lib/canaryd/canaryd.db"
    assert config.service.backup == Backup(Path("/var/lib/canaryd/backups"), 7)
    assert config.service.export == Path("/var/lib/canaryd/export/canaryd-ro.sqlite")


def test_the_first_project_can_be_registered_as_it_is(tmp_path: Path) -> None:
    assert script(tmp_path).returncode == 0
    folder = tmp_path / "etc/canaryd"
    (series,) = parse((folder / "config.toml").read_text(), path=folder / "config.toml").series
    assert frozen_panel(series).name == "starter"
    assert load_prereg(series.prereg).rule.baseline_days > 0


def test_an_update_keeps_the_configuration_and_finds_the_keys(tmp_path: Path) -> None:
    assert script(tmp_path).returncode == 0
    (tmp_path / "etc/canaryd/config.toml").write_text("mine")
    (tmp_path / "etc/credstore/canaryd.openai_api_key").write_text("k")
    assert script(tmp_path).returncode == 0
    assert (tmp_path / "etc/canaryd/config.toml").read_text() == "mine"
    assert (tmp_path / "etc/systemd/system/canaryd.service.d/credentials.conf").read_text().splitlines() == [
        "[Service]",
        "LoadCredential=openai_api_key:/etc/credstore/canaryd.openai_api_key",
        r"SetCredential=openai_api_key:\n",
    ]
    assert (tmp_path / "etc/credstore").stat().st_mode & 0o777 == 0o700


def test_uninstalling_leaves_what_is_the_users(tmp_path: Path) -> None:
    assert script(tmp_path).returncode == 0
    (tmp_path / "etc/credstore/canaryd.k").write_text("k")
    for _ in range(2):
        assert script(tmp_path, "--uninstall").returncode == 0
        left = {name for name in tree(tmp_path) if not name.startswith("etc/canaryd/")}
        assert left == {"etc/credstore/canaryd.k"}
    assert (tmp_path / "etc/canaryd/config.toml").exists()


def test_an_unknown_argument_is_refused(tmp_path: Path) -> None:
    refused = script(tmp_path, "--purge")
    assert (refused.returncode, "--purge is unknown" in refused.stderr, tree(tmp_path)) == (1, True, {})


def test_the_scripts_are_plain_sh(installed: Tool) -> None:
    shell = shutil.which("dash") or installed("sh")
    for name in ("install.sh", "canaryd-service"):
        assert subprocess.run([shell, "-n", UNITS / name], check=False).returncode == 0
