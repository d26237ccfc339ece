"""Calibration as its user runs it: killed and gone on with, its mistakes, and the published design."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

FAMILIES = "arith,modular,bases,calendar,fidelity,tracing"
CONFIG = """
[store]
url = "sqlite:///canaryd.db"
[[series]]
name = "main"
panel = "panel/mine.jsonl"
[[series.arm]]
name = "tracked"
role = "tracked"
provider = "simulated"
model = "large"
options = {{ faults = {{ timeout = {timeouts} }} }}
"""
POOL = ("--size", "60", "--families", FAMILIES)


@pytest.fixture
def project(canaryd: Any, tmp_path: Path) -> Path:
    assert canaryd("init", "project").code == 0
    (tmp_path / "project" / "config.toml").write_text(CONFIG.format(timeouts=0.0))
    return tmp_path / "project"


def calibrate(canaryd: Any, *arguments: str) -> Any:
    return canaryd("--config", "project/config.toml", "calibrate", *arguments)


def stored(store: Path) -> int:
    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    try:
        count: int = connection.execute("SELECT count(*) FROM study_sample").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()
    return count


def test_a_killed_screen_goes_on_and_ends_as_an_undisturbed_one(canaryd: Any, project: Path) -> None:
    quick = (project / "config.toml").read_text()
    (project / "config.toml").write_text(quick + "requests_per_minute = 6000\n")
    command = [sys.executable, "-m", "canaryd", "--config", "config.toml", "calibrate", "screen", *POOL]
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        if (project / "canaryd.db").exists() and stored(project / "canaryd.db") >= 40:
            os.kill(process.pid, signal.SIGKILL)
            break
        time.sleep(0.002)
    process.wait()
    assert 40 <= stored(project / "canaryd.db") < 240
    (project / "config.toml").write_text(quick)
    resumed = calibrate(canaryd, "screen", "--json")
    assert resumed.code == 0, resumed.err
    assert stored(project / "canaryd.db") == 240
    for file in project.glob("canaryd.db*"):
        file.unlink()
    whole = calibrate(canaryd, "screen", "--json")
    assert whole.json == resumed.json


def test_the_pool_that_is_generated_keeps_its_seed_private(canaryd: Any, project: Path) -> None:
    screened = calibrate(canaryd, "screen", *POOL)
    assert (screened.code, "keep it private" in screened.err) == (0, True)
    seed = project / "panel" / "pool.seed.txt"
    assert (len(seed.read_text().strip()), seed.stat().st_mode & 0o077) == (64, 0)
    assert seed.read_text().strip() not in screened.err + screened.out
    verified = canaryd("panel", "generate", "again/pool.jsonl", "--seed", seed.read_text().strip(), *POOL)
    assert verified.code == 0
    assert (project.parent / "again/pool.jsonl").read_bytes() == (project / "panel/pool.jsonl").read_bytes()


def test_what_is_missing_is_said_and_asked_again(canaryd: Any, project: Path) -> None:
    retry = "[retry]\ncalls = 1\n"
    (project / "config.toml").write_text(CONFIG.format(timeouts=0.3) + retry)
    first = calibrate(canaryd, "screen", *POOL, "--json")
    assert first.code == 69
    missing = first.json["missing"]["screen"]
    assert f"{missing} samples of the screen missing (failures: {missing} timeout)" in first.err
    assert first.json["screened"]["unfinished"] > 0
    refused = calibrate(canaryd, "confirm")
    assert (refused.code, "run `canaryd calibrate screen` first" in refused.err) == (64, True)


def test_stages_in_the_wrong_order_are_refused(canaryd: Any, project: Path) -> None:
    for arguments, said in (
        (("confirm",), "there is no pool; `canaryd calibrate screen` generates one"),
        (("screen", "--families", "poems"), "--families names 'poems', which does not exist"),
        (("screen", "--arm", "nobody", *POOL), "series 'main' has no arm 'nobody'; there are tracked"),
        (("design",), "240 samples of its screen missing; run `canaryd calibrate screen` first"),
    ):
        refused = calibrate(canaryd, *arguments)
        assert (refused.code, said in refused.err) == (64, True), refused.err
    assert calibrate(canaryd, "screen").code == 0
    unconfirmed = calibrate(canaryd, "design")
    assert (unconfirmed.code, "no kept item is confirmed" in unconfirmed.err) == (64, True), unconfirmed.err


def test_the_published_design_is_reproduced_by_the_commands_of_the_documentation(canaryd: Any, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "calibration.md").read_text()
    (script,) = re.findall(r"```sh\n(awk .*?)```", page, flags=re.DOTALL)
    write, predict = script.strip().rsplit("\n", maxsplit=1)
    subprocess.run(["sh", "-c", write], cwd=tmp_path, check=True)
    assert (tmp_path / "counts.csv").read_text().count("\n") == 1 + 78
    command = predict.split()[1:]
    said = canaryd(*command).out
    assert said in page
    found = canaryd(*command, "--json").json
    assert round(100 * found["shrunk"]["se"], 4) == 2.1983
    assert round(100 * found["shrunk"]["one_window"], 4) == 7.5137
    assert round(100 * found["unbiased"]["one_window"], 2) == 7.26
    (tmp_path / "counts.csv").write_text("item_id,passes,samples\na,9,8\n")
    refused = canaryd(*command)
    assert (refused.code, "counts.csv:2: has 9 passes of 8 samples, but" in refused.err) == (78, True)
    (tmp_path / "counts.csv").write_text("item_id,passes,samples\na,6,8\na,6,8\n")
    assert "counts.csv:3: item 'a' comes twice" in canaryd(*command).err
