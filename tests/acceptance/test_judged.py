"""Judged items with real processes: a judge behind a loopback server, its anchors every day, and a judge that moves."""

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from canaryd.demo.server import ModelHost, ModelServer
from canaryd.providers.simulated_model import Era, SimulatedModel

DAY_1 = date(2027, 3, 1)
FLIPPED = DAY_1 + timedelta(days=10)
CONFIG = """
[demo]
clock = "clock.txt"
[store]
url = "sqlite:///canaryd.db"
[credentials]
judge_key_file = "key.txt"
[[series]]
name = "main"
panel = "panel.jsonl"
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
[series.judge]
family = "sim"
version = "1"
provider = "openai"
model = "judge"
base_url = "http://127.0.0.1:{port}/v1"
credential = "judge_key"
timeout_s = 20
concurrency = 4
anchors = "anchors.jsonl"
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


def judged(name: str, target: str) -> dict[str, Any]:
    grader = {"type": "judge", "rubric": f"Says: {target}"}
    return {"id": name, "family": "why", "prompt": f"Why, {name}?", "target": target, "grader": grader}


def anchor(name: str, answer: str, label: str) -> dict[str, str]:
    return {"id": name, "item": "why-ice", "answer": f"<answer>{answer}</answer>", "label": label}


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def judge(tmp_path: Path, port: int) -> Iterator[SimulatedModel]:
    """A judge that calls everything correct from a day on, and whose reported name rolls the day after."""
    eras = (
        Era(DAY_1, resolved_model="judge-1"),
        Era(FLIPPED, resolved_model="judge-1", says="correct"),
        Era(FLIPPED + timedelta(days=1), resolved_model="judge-2", says="correct"),
    )
    model = SimulatedModel(model="judge", arm="judge", seed=1, answers={}, eras=eras)
    clock = tmp_path / "project" / "clock.txt"
    host = ModelHost.of([model], items=[], today=lambda: datetime.fromisoformat(clock.read_text()).date())
    with ModelServer(host, port=port):
        yield model


@pytest.fixture(params=[False, True], ids=["beside", "primary"])
def primary(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def say(canaryd: Any, tmp_path: Path, port: int, primary: bool) -> Any:
    """A project of 24 measured and 3 judged items, and the function that runs a command of it."""
    folder = tmp_path / "project"
    assert canaryd("init", "project").code == 0
    families = "arith,modular,bases,calendar"
    made = canaryd("panel", "generate", "project/panel.jsonl", "--seed", "s", "--size", "24", "--families", families)
    assert made.code == 0, made.err
    with (folder / "panel.jsonl").open("a") as panel:
        panel.write(lines([judged(f"why-{name}", f"because {name}") for name in ("ice", "sky", "sea")]))
    anchors = [anchor("right", "because ice", "correct"), anchor("wrong", "no idea", "incorrect")]
    (folder / "anchors.jsonl").write_text(lines(anchors))
    (folder / "key.txt").write_text("not-a-key")
    (folder / "key.txt").chmod(0o600)
    (folder / "config.toml").write_text(CONFIG.format(port=port))
    registration = (folder / "prereg.toml").read_text()
    for key, value in (("baseline_days", 6), ("window_days", 3), ("series", 100)):
        registration = re.sub(rf"(?m)^{key} = \d+", f"{key} = {value}", registration)
    (folder / "prereg.toml").write_text(registration)
    (folder / "clock.txt").write_text(f"{DAY_1}T03:00:00+00:00")
    assert canaryd("panel", "freeze", "project/panel.jsonl").code == 0

    def run(*arguments: str, code: int = 0) -> Any:
        done = canaryd("--config", "project/config.toml", *arguments)
        assert done.code == code, (arguments, done.out, done.err)
        return done

    unregistered = run("register", "--start", "today", code=78)
    assert "the table [judge] is required" in unregistered.err
    rule = f"\n[judge]\nprimary = {str(primary).lower()}\nmax_anchors_moved = 0\n"
    (folder / "prereg.toml").write_text(registration + rule)
    run("register", "--start", "today")
    return run


def test_a_judge_that_moves_is_said_before_any_number(
    say: Any, judge: SimulatedModel, primary: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    if not primary:  # what does not depend on it is proved once
        assert "ok    judge        openai:judge:1" in say("doctor").out
        the_budget_counts_the_judge(say, folder)
    measure_days(tmp_path, DAY_1, count=10)
    calm = say("status", "--json").json["series"][0]
    assert (calm["judge"]["state"], calm["judge"]["agreeing"], calm["judge"]["anchors"]) == ("ok", 2, 2)
    assert calm["judge"]["primary"] is primary
    assert calm["window"]["panel_items"] == (27 if primary else 24)
    assert calm["window"]["judged_excluded"] == (0 if primary else 3)
    assert (calm["window"]["arms"][0]["judged_delta"] is None) is primary
    assert graded(folder / "canaryd.db") == {("judge@1", 2 * 10 * 3)}
    assert calm["judge"]["resolved_models"] == ["judge-1"]

    measure_days(tmp_path, FLIPPED, count=3)
    status, text = say("status", "--json").json["series"][0], say("status").out
    assert (status["judge"]["state"], status["judge"]["moved"]) == ("moved", ["wrong"])
    what = "REDUCED COMPARABILITY" if primary else "REDUCED COMPARABILITY of the judged items"
    banner = text.index(f"{what}: the judge moved (slot of 2027-03-13)")
    assert banner < text.index("delta")
    assert "rolled from judge-1 to judge-2; other verdicts than on 2027-03-01 on wrong" in text
    assert ("no estimate holds an opinion of it" in text) is not primary
    (coincidence,) = (one for one in status["window"]["coincides_with"] if one["kind"] == "judge")
    assert (coincidence["date"], "on wrong" in coincidence["text"]) == (FLIPPED.isoformat(), True)

    check = json.loads(say("check", "--json", code=2 if primary else 0).out)
    assert check["reason"] == ("judge_moved" if primary else "verdict")
    assert check["sentence"].startswith(f"main: {what}")
    say("report", "--out", "report")
    page = (tmp_path / "report" / "main.md").read_text()
    assert page.index("REDUCED COMPARABILITY") < page.index("points")
    assert "Moved, first seen on 2027-03-11: other verdicts than on 2027-03-01 on wrong" in page
    metrics = say("metrics").out
    assert 'canaryd_judge_state{series="main",state="moved"} 1' in metrics
    assert 'canaryd_judge_agreement_ratio{series="main"} 0.5' in metrics
    say("verify")
    if not primary:
        assert f"{2 * 13 * 24} " in say("regrade").out
        say("export", "--series", "main", "whole.jsonl")
        say("verify", "whole.jsonl")
        another_judge_refuses_the_day_by_name(say, folder)


def the_budget_counts_the_judge(say: Any, folder: Path) -> None:
    """Two arms of 27 items and a trivial task each, and a judge of 3 answers of both and 2 anchors: 64 calls."""
    config = folder / "config.toml"
    text = config.read_text()
    config.write_text(text.replace("[[series.arm]]", "[series.budget]\ncalls_per_day = 63\n[[series.arm]]", 1))
    assert "judge: would grade 6 answers and 2 anchors by openai:judge:1" in say("run", "--dry-run").out
    assert "calls_per_day is 63, 0 are used up and 64 more are needed" in say("run", code=69).out
    config.write_text(text)


def another_judge_refuses_the_day_by_name(say: Any, folder: Path) -> None:
    config = folder / "config.toml"
    config.write_text(config.read_text().replace('version = "1"', 'version = "2"').replace('"judge"\nb', '"other"\nb'))
    set_clock(folder, DAY_1 + timedelta(days=13), hour=4)
    refused = say("run", "--slot", "today", code=69)
    assert "judge identity: openai:judge:1 -> openai:other:2; judge request.body.model: judge -> other" in refused.out
    assert "the judge is another one, so nothing is measured (judge identity: openai:judge:1" in say("status").out


def measure_days(folder: Path, first: date, *, count: int) -> None:
    command = [sys.executable, "-c", DAYS, first.isoformat(), str(count)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("tracked: completed") == count


def set_clock(folder: Path, day: date, *, hour: int) -> None:
    (folder / "clock.txt").write_text(datetime(day.year, day.month, day.day, hour, tzinfo=UTC).isoformat())


def graded(store: Path) -> set[tuple[str, int]]:
    connection = sqlite3.connect(store)
    query = "SELECT grader, count(*) FROM sample WHERE item_id LIKE 'why-%' GROUP BY grader"
    found = set(connection.execute(query).fetchall())
    connection.close()
    return found
