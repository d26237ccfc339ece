"""A whole life of a series on the simulated provider, by the commands that its user types."""

import re
import sqlite3
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

DAY_1 = date(2027, 3, 1)
CHANGE = DAY_1 + timedelta(days=20)
CONFIG = f"""
[demo]
clock = "clock.txt"
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
options = {{ eras = [{{ from = "{CHANGE}", drop = 0.25, token_factor = 0.7 }}] }}
[[series.arm]]
name = "control"
role = "control"
provider = "simulated"
model = "small"
"""
CONTROLS = """\
controls = [
    { name = "less-effort", options = { eras = [{ from = "2027-01-01", drop = 0.3 }] } },
    { name = "swapped", model = "weak", options = { eras = [{ from = "2027-01-01", drop = 0.35 }] } },
]
"""
#: `canaryd run` once a day in one process, so that not every day pays for starting Python.
DAYS = """
import sys
from datetime import date, datetime, time, timedelta, UTC
from pathlib import Path
from canaryd.cli import cli
first, count = date.fromisoformat(sys.argv[1]), int(sys.argv[2])
for day in range(count):
    moment = datetime.combine(first + timedelta(days=day), time(3, 10), UTC)
    Path("project/clock.txt").write_text(moment.isoformat())
    cli.main(["--config", "project/config.toml", "run", "--slot", "today"], standalone_mode=False)
"""


def registration(example: str) -> str:
    """Return the example with a short calendar, few simulations, and positive controls that are worse on purpose."""
    for key, value in (("baseline_days", 10), ("window_days", 10), ("series", 200)):
        example, count = re.subn(rf"(?m)^{key} = \d+", f"{key} = {value}", example)
        assert count == 1, key
    text, count = re.subn(r"(?ms)^controls = \[.*?^\]\n", CONTROLS, example)
    assert count == 1
    return text


@pytest.fixture
def life(canaryd: Any, tmp_path: Path) -> Any:
    """Return a function that runs one command of the project and expects an exit code."""
    assert canaryd("init", "project").code == 0
    folder = tmp_path / "project"
    (folder / "config.toml").write_text(CONFIG)
    (folder / "prereg.toml").write_text(registration((folder / "prereg.toml").read_text()))
    set_clock(folder, DAY_1 - timedelta(days=1), hour=12)

    def run(*arguments: str, code: int = 0) -> Any:
        done = canaryd("--config", "project/config.toml", *arguments)
        assert done.code == code, (arguments, done.out, done.err)
        return done

    return run


def set_clock(folder: Path, day: date, *, hour: int) -> None:
    (folder / "clock.txt").write_text(datetime(day.year, day.month, day.day, hour, tzinfo=UTC).isoformat())


def measure_days(folder: Path, first: date, *, count: int) -> None:
    command = [sys.executable, "-c", DAYS, first.isoformat(), str(count)]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("tracked: completed") == count


def test_from_a_pool_to_a_declared_change(life: Any, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    pool, panel = "project/panel/mypool.jsonl", "project/panel/mine.jsonl"
    families = "arith,modular,bases,calendar,fidelity,tracing"
    life("panel", "generate", pool, "--seed", "a whole life", "--size", "48", "--families", families)

    screened = life("calibrate", "screen", pool, "--json").json["screened"]
    assert sum(screened.values()) == 48
    confirmed = life("calibrate", "confirm", pool, "--json").json
    (everything,) = (row for row in confirmed["regression"] if row["group"] == "all")
    assert everything["items"] == screened["kept"]
    designed = life("calibrate", "design", pool, "--out", panel, "--plot", "design.svg", "--json").json["design"]
    assert designed["items"] == screened["kept"] > 20
    assert 0.1 < designed["mde"]["two_windows"] < 0.2
    assert (tmp_path / "design.svg").read_bytes().startswith(b"<?xml")
    life("panel", "verify", panel)

    registered = life("register", "--start", "tomorrow")
    document = (folder / "registration-main.md").read_text()
    for pinned in re.findall(r"sha256:[0-9a-f]{64}", registered.out)[:2]:
        assert pinned in document
    assert "day 1 is 2027-03-01" in document
    assert "less-effort, swapped" in document
    life("check", code=2)

    measure_days(folder, DAY_1, count=10)
    running = life("validate", "report", "--json", code=2).json
    assert (running["passed"], running["baseline_is_over"], running["sessions"]) == (None, False, [])
    life("validate", "run")
    measure_days(folder, DAY_1 + timedelta(days=10), count=30)
    set_clock(folder, DAY_1 + timedelta(days=40), hour=4)
    life("run")

    validated = life("validate", "report", "--json").json
    assert (validated["passed"], validated["baseline_is_over"]) == (True, True)
    assert validated["days"]["days"] == [5, 5]
    assert [control["seen"][0] for control in validated["controls"]] == ["score", "score"]
    assert validated["cannot_see"].startswith("This instrument cannot see most changes smaller than")
    said = life("validate", "report").out
    assert "phi = V_day / V_obs" in said
    assert validated["cannot_see"] in said

    status = life("status", "--json").json["series"][0]
    assert (status["state"], status["window"]["index"]) == ("regression", 3)
    check = life("check", "--json", code=1).json
    assert (check["verdict"], check["direction"], check["attribution"]) == ("change", "down", "model")
    assert "declared regression" in life("report", "--out", "report").out
    assert "declared regression" in (tmp_path / "report" / "main.md").read_text()
    assert runs_hold_no_sample_of_a_study(folder / "canaryd.db")


def runs_hold_no_sample_of_a_study(store: Path) -> bool:
    connection = sqlite3.connect(store)
    (in_runs,) = connection.execute("SELECT count(*) FROM sample WHERE replicate > 0").fetchone()
    stages = connection.execute("SELECT DISTINCT stage FROM study ORDER BY stage").fetchall()
    connection.close()
    return bool(in_runs == 0 and [stage for (stage,) in stages] == ["confirm", "screen", "validate"])
