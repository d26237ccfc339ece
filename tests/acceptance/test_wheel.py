"""The built wheel, alone: the demo and a project work without the checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it; its dependencies come from this environment, canaryd itself does not."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    site = next((folder / "env").glob("lib/python*/site-packages"))
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", site, wheel],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    # A .pth file adds the folder of the dependencies but not the .pth files in it, so not the editable canaryd.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "env" / "bin" / "python"


def run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(python), "-m", "canaryd", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_wheel_is_what_runs(installed: Path, tmp_path: Path) -> None:
    code = "import canaryd, canaryd.resources as r; print(canaryd.__file__, r.resource('migrations'))"
    asked = subprocess.run([installed, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    found = asked.stdout
    assert str(installed.parents[1]) in found
    assert str(ROOT) not in found


def test_demo(installed: Path, tmp_path: Path, port: int) -> None:
    played = run(installed, tmp_path, "demo", "--quick", "--port", str(port))
    assert played.returncode == 0, played.stderr
    assert "declared regression" in played.stdout
    assert (tmp_path / "demo-1" / "canaryd.db").exists()


def test_init_and_upgrade(installed: Path, tmp_path: Path) -> None:
    assert run(installed, tmp_path, "init", "project").returncode == 0
    upgraded = run(installed, tmp_path, "--config", "project/config.toml", "db", "upgrade")
    assert upgraded.returncode == 0, upgraded.stderr
    assert run(installed, tmp_path, "panel", "verify", "project/panel/starter.jsonl").returncode == 0
    assert (tmp_path / "project" / "canaryd.db").exists()
