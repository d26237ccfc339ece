"""The measurement contract from the command line: what is refused says why, stores it, and costs no call."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from canaryd import graders
from canaryd.generators import generate
from canaryd.panel import freeze, load, lock_path, system_path

PROJECT = """
[store]
url = "sqlite:///canaryd.db"
[schedule]
time_utc = "03:10"
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
"""


@pytest.fixture
def project(canaryd: Any, tmp_path: Path) -> Path:
    """A registered project on the simulated provider that begins today."""
    assert canaryd("init", "project").code == 0
    folder = tmp_path / "project"
    panel = folder / "panel.jsonl"
    generated = generate("contract", size=20, name="contract", families=("arith", "modular", "bases", "calendar"))
    panel.write_bytes(generated.items)
    Path(system_path(str(panel))).write_bytes(generated.system)
    Path(lock_path(str(panel))).write_bytes(freeze(load(str(panel), graders=graders)))
    (folder / "config.toml").write_text(PROJECT)
    registration = (folder / "prereg.toml").read_text()
    (folder / "prereg.toml").write_text(registration.replace("series = 2000", "series = 100"))
    registered = say(canaryd, "register", "--start", "today")
    assert registered.code == 0, registered.err
    return folder


def say(canaryd: Any, *arguments: str) -> Any:
    return canaryd("--config", "project/config.toml", *arguments)


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "config.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_drift_from_the_refusal_to_the_new_baseline(canaryd: Any, project: Path) -> None:
    assert say(canaryd, "doctor").code == 0
    assert say(canaryd, "run").code == 0
    assert "nothing differs" in say(canaryd, "deviation", "accept", "--reason", "none").err

    edit(project, "03:10", "04:40")
    edit(project, 'model = "large"', 'model = "larger"')
    examined = say(canaryd, "doctor")
    assert examined.code == 69
    assert "request.body.model: large -> larger; time of day: 03:10 UTC -> 04:40 UTC" in examined.out
    assert "-> restore what differs, or begin a new baseline with `canaryd deviation accept --reason`" in examined.out

    refused = say(canaryd, "deviation", "accept", "--equivalent", "--reason", "same thing")
    assert (refused.code, "only versions of an SDK or a CLI can be equivalent" in refused.err) == (64, True)
    accepted = say(canaryd, "deviation", "accept", "--reason", "the larger one is what we serve now")
    assert accepted.code == 0, accepted.err
    assert "tracked: request.body.model: large -> larger" in accepted.out
    assert "epoch 2 begins with the slot of" in accepted.out
    shown = say(canaryd, "status")
    assert "deviation accepted on" in shown.out
    assert "the larger one is what we serve now" in shown.out


def test_a_budget_refuses_before_the_first_call(canaryd: Any, project: Path) -> None:
    edit(project, "[[series.arm]]", "budget = { calls_per_day = 10 }\n[[series.arm]]")
    refused = say(canaryd, "run")
    assert refused.code == 69
    assert "tracked: refused budget: calls_per_day is 10, 0 are used up and 42 more are needed" in refused.out
    status = say(canaryd, "status", "--json").json["series"][0]
    assert {run["outcome"] for run in status["last_runs"]} == {"refused"}
    assert say(canaryd, "check").code == 2


def test_money_without_a_price_is_refused_at_start(canaryd: Any, project: Path) -> None:
    edit(project, "[[series.arm]]", "budget = { money_per_day = 1.0 }\n[[series.arm]]")
    refused = say(canaryd, "run")
    assert refused.code == 78
    assert "there is no price of 'large' on 'simulated' (arm 'tracked'); add a [[price]]" in refused.err


def test_an_arm_that_cannot_be_asked_leaves_its_reason(canaryd: Any, project: Path) -> None:
    edit(project, 'model = "small"', 'model = "small"\noptions = { seed = "x" }')
    refused = say(canaryd, "run")
    assert (refused.code, "options.seed" in refused.err) == (78, True)
    status = say(canaryd, "status", "--json").json["series"][0]
    assert [run["reason"].split(":")[0] for run in status["last_runs"]] == ["configuration", "configuration"]


def test_deviations_are_kept_with_their_reason(canaryd: Any, project: Path) -> None:
    assert say(canaryd, "deviation", "add", "--reason", "the provider announced an incident").code == 0
    empty = say(canaryd, "deviation", "add", "--reason", " ")
    assert (empty.code, "say why" in empty.err) == (64, True)
    assert say(canaryd, "run", "--no-canary").code == 0
    notes = say(canaryd, "status", "--json").json["series"][0]["deviations"]
    assert [(note["kind"], note["reason"]) for note in notes] == [
        ("noted", "the provider announced an incident"),
        ("no_canary", "the slot was measured without the trivial task"),
    ]
    assert "carries no change" in say(canaryd, "ack", "--reason", "seen").err


def test_two_processes_on_one_slot_ask_it_once(canaryd: Any, project: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda _: say(canaryd, "run"), range(2)))
    codes = sorted(one.code for one in ended)
    assert codes in ([0, 0], [0, 75]), [one.err for one in ended]
    if codes == [0, 75]:
        assert any("is held by process" in one.err for one in ended)
    with sqlite3.connect(project / "canaryd.db") as connection:
        counted = connection.execute("SELECT count(*), count(DISTINCT run_id) FROM sample").fetchone()
    connection.close()
    assert counted == (40, 2)
