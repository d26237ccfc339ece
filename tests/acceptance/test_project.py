"""A project from `init` to a refused run: what was frozen is measured, and nothing else."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SIMULATED = """
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
[[series.arm]]
name = "control"
role = "control"
provider = "simulated"
model = "small"
"""


@pytest.fixture
def project(canaryd: Any, tmp_path: Path) -> Path:
    """A project on the simulated provider, registered and begun today."""
    assert canaryd("init", "project").code == 0
    folder = tmp_path / "project"
    (folder / "config.toml").write_text(SIMULATED)
    path, families = "project/panel/mine.jsonl", "arith,modular,bases,calendar,fidelity"
    assert canaryd("panel", "generate", path, "--seed", "s", "--size", "60", "--families", families).code == 0
    assert canaryd("panel", "freeze", path).code == 0
    assert canaryd("--config", "project/config.toml", "db", "upgrade").code == 0
    registered = canaryd("--config", "project/config.toml", "register", "--start", "today")
    assert registered.code == 0, registered.err
    return folder


def run(canaryd: Any, *arguments: str) -> Any:
    return canaryd("--config", "project/config.toml", "run", *arguments)


def test_a_day_is_measured_once(canaryd: Any, project: Path) -> None:
    planned = run(canaryd, "-n")
    assert planned.code == 0, planned.err
    counts = [int(number) for number in re.findall(r"would ask (\d+) samples", planned.out)]
    assert len(counts) == 2
    assert min(counts) > 0
    first = run(canaryd, "--slot", "today")
    assert first.code == 0, first.err
    assert first.out.count("completed") == 2
    again = run(canaryd)
    assert (again.code, "nothing is owed" in again.out) == (0, True)
    assert run(canaryd, "--dry-run").out.count("would ask 0 samples") == 2
    check = canaryd("--config", "project/config.toml", "check", "--json")
    assert (check.code, check.json["reason"]) == (2, "insufficient_data")
    assert "day 1 of 20 of the baseline" in canaryd("--config", "project/config.toml", "status").out


def flip(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("panel/mine.jsonl", b'"prompt":"', b'"prompt":" ', "mine.jsonl:2: item "),
        ("panel/mine.system.txt", b"question", b"Question", "mine.system.txt: the system prompt differs"),
        ("prereg.toml", b"min_effect = 0.03", b"min_effect = 0.02", "prereg.toml: was edited after"),
        ("panel/mine.lock", b'"digest": "sha256:', b'"digest": "sha256:0', "mine.lock: name, version or digest"),
    ],
)
def test_one_edited_byte_refuses(canaryd: Any, project: Path, name: str, old: bytes, new: bytes, said: str) -> None:
    flip(project / name, old, new)
    refused = run(canaryd)
    assert refused.code == 69
    assert said in refused.err
    assert refused.err.count("\n") == 1


def test_a_rule_that_can_never_fire_is_not_registered(canaryd: Any, tmp_path: Path) -> None:
    assert canaryd("init", "project").code == 0
    flip(tmp_path / "project/prereg.toml", b"horizon_days = 365", b"horizon_days = 39")
    refused = canaryd("--config", "project/config.toml", "register")
    assert refused.code == 78
    assert "prereg.toml:" in refused.err
    assert "horizon_days is 39, but a change takes a baseline and two windows, 40 days" in refused.err


def test_a_series_is_registered_once(canaryd: Any, project: Path) -> None:
    again = canaryd("--config", "project/config.toml", "register")
    assert again.code == 64
    assert "already registered" in again.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["check"], 78, "there is no configuration"),
        (["--config", "nowhere.toml", "status"], 78, "nowhere.toml: there is no such configuration file"),
        (["frobnicate"], 64, "No such command"),
        (["run", "--slt", "today"], 64, "No such option"),
    ],
)
def test_a_newcomers_mistakes_get_one_sentence(canaryd: Any, arguments: list[str], code: int, said: str) -> None:
    refused = canaryd(*arguments)
    assert (refused.code, said in refused.err) == (code, True), refused.err


def test_without_a_store_nothing_is_a_verdict(canaryd: Any, tmp_path: Path) -> None:
    canaryd("init", "project")
    for command in ("check", "status", "run"):
        refused = canaryd("--config", "project/config.toml", command)
        assert (refused.code, "canaryd db upgrade" in refused.err) == (66, True)


def test_only_todays_slot_is_measured(canaryd: Any, project: Path) -> None:
    refused = run(canaryd, "--slot", "2020-01-01")
    assert (refused.code, "nothing is back-filled" in refused.err) == (64, True)


def test_init_never_overwrites(canaryd: Any, project: Path) -> None:
    before = (project / "config.toml").read_bytes()
    refused = canaryd("init", "project")
    assert (refused.code, "exists already" in refused.err) == (64, True)
    assert (project / "config.toml").read_bytes() == before


def test_a_registration_is_simulated_before_it_starts(canaryd: Any, project: Path) -> None:
    few = ("--count", "400", "--monitor", "20", "--drops", "15", "--shocks", "0,2")
    answer = canaryd("--config", "project/config.toml", "simulate", "--json", *few)
    assert answer.code == 0, answer.err
    null, shocked = answer.json["false_alarms"]
    assert (null["shock"]["sd"], shocked["shock"]["sd"]) == (0.0, 0.02)
    assert null["rule"]["365"]["share"] < 0.03
    by_truth = {row["truth"]: row for row in answer.json["detections"]}
    assert by_truth["model"]["rule"]["within"]["40"]["share"] > 0.9
    assert by_truth["platform"]["calls"]["platform"]["share"] > by_truth["platform"]["calls"]["model"]["share"]
    text = canaryd("--config", "project/config.toml", "simulate", *few, "--plot", "oc.svg")
    assert "-15.0 points after day 20" in text.out
    assert (project.parent / "oc.svg").read_bytes().startswith(b"<?xml")


def test_simulate_refuses_what_it_cannot_do(canaryd: Any, project: Path) -> None:
    for arguments, said in [
        (["--drops", "much"], "--drops is 'much'"),
        (["--drops", "nan"], "--drops is 'nan', but must be numbers of points from -100 to 100"),
        (["--rho", "nan"], "'--rho': nan is no finite number"),
        (["--drops", "99"], "this cannot be simulated"),
        (["--rates", "baseline"], "has no measured baseline yet"),
    ]:
        refused = canaryd("--config", "project/config.toml", "simulate", "--count", "100", *arguments)
        assert (refused.code, said in refused.err) == (64, True), refused.err


@pytest.mark.parametrize("closed", [">/dev/full", "2>/dev/full", ">/dev/full 2>/dev/full", "2>&-", "| true"])
def test_a_verdicts_code_is_never_a_failure_to_write(project: Path, closed: str) -> None:
    command = f"{sys.executable} -m canaryd --config project/config.toml check {closed}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], cwd=project.parent, capture_output=True, check=False
    )
    assert done.returncode in (2, 70, 141), "a healthy series of one day cannot be judged, and nothing else may be said"
    refused = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m canaryd --config nowhere check 2>/dev/full"],
        cwd=project.parent,
        check=False,
    )
    assert refused.returncode == 78


def test_another_model_than_the_registered_one_is_refused(canaryd: Any, project: Path) -> None:
    flip(project / "config.toml", b'model = "large"', b'model = "larger"')
    refused = run(canaryd)
    assert (refused.code, "was registered as simulated large" in refused.err) == (69, True), refused.err


def test_a_panel_that_is_not_frozen_names_the_command(canaryd: Any, project: Path) -> None:
    (project / "panel/mine.lock").unlink()
    refused = run(canaryd)
    assert (refused.code, "canaryd panel freeze" in refused.err) == (78, True), refused.err


def test_a_password_in_a_url_is_refused_and_not_repeated(canaryd: Any, project: Path) -> None:
    flip(project / "config.toml", b'model = "large"', b'model = "large"\nbase_url = "http://u:hunter2@127.0.0.1/v1"')
    refused = run(canaryd)
    assert (refused.code, "hunter2" in refused.err) == (78, False), refused.err
