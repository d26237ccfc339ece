"""The measurement contract from the command line: what is refused says why, stores it, and costs no call."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from canaryd import graders
from canaryd.generators import generate
from canaryd.panel import freeze, load, lock_path, system_path
from canaryd.records import RunStart
from canaryd.runner.clock import SystemClock
from canaryd.runner.project import held
from canaryd.store import read, schema
from canaryd.store.engine import Store, open_store
from canaryd.store.lease import Lease
from canaryd.store.write import claim_slot

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


def today() -> date:
    return datetime.now(UTC).date()


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
    assert (
        "-> restore what differs, or begin a new baseline with `canaryd deviation accept --reason TEXT`" in examined.out
    )

    refused = say(canaryd, "deviation", "accept", "--equivalent", "--reason", "same thing")
    assert (refused.code, "only versions of an SDK or a CLI can be equivalent" in refused.err) == (64, True)
    accepted = say(canaryd, "deviation", "accept", "--reason", "the larger one is what we serve now")
    assert accepted.code == 0, accepted.err
    assert "tracked: request.body.model: large -> larger" in accepted.out
    assert "epoch 2 begins with the slot of" in accepted.out
    shown = say(canaryd, "status")
    assert "deviation accepted on" in shown.out
    assert "the larger one is what we serve now" in shown.out


def test_doctor_says_of_every_check_what_to_do(canaryd: Any, project: Path) -> None:
    assert say(canaryd, "run").code == 0
    (project / "clock.txt").write_text("2025-01-01T00:00:00+00:00\n")
    edit(project, "[schedule]", '[demo]\nclock = "clock.txt"\n[schedule]')
    edit(project, "03:10", "04:40")
    edit(project, "[[series.arm]]", "budget = { calls_per_day = 10 }\n[[series.arm]]")
    edit(project, 'model = "large"', 'model = "large"\noptions = { faults = { auth = 1.0 } }')
    examined = say(canaryd, "doctor")
    assert (examined.code, "7 checks failed" in examined.err) == (69, True), examined.out
    said = [line.strip() for line in examined.out.splitlines()]
    failed = {line.split()[1]: said[n + 1] for n, line in enumerate(said) if line.startswith("FAIL")}
    assert {check: cure.split(",")[0] for check, cure in failed.items()} == {
        "fingerprint": "-> restore what differs",
        "clock": "-> set the machine's clock (a time service keeps it right)",
        "budget": "-> raise the limit or add the price in the configuration",
        "canary": "-> check the key that the arm's credential names",
    }
    assert {"lease", "panel", "store"} <= {line.split()[1] for line in said if line.startswith("ok")}

    panel = (project / "panel.jsonl").read_text()
    (project / "panel.jsonl").write_text(panel.replace("contract", "contrast", 1))
    panel_changed = say(canaryd, "doctor")
    assert (panel_changed.code, "FAIL  panel " in panel_changed.out) == (69, True), panel_changed.out
    assert "-> mend what the lines of the panel above say, then run `canaryd doctor` again" in panel_changed.out
    assert "deviation accept" not in panel_changed.out, "an edited panel is no deviation"
    (project / "canaryd.db").unlink()
    store_gone = say(canaryd, "doctor")
    assert (store_gone.code, "create it with `canaryd db upgrade`" in store_gone.err) == (66, True)


def test_doctor_checks_every_arm_although_one_lacks_its_key_and_the_panel_differs(canaryd: Any, project: Path) -> None:
    edit(project, 'model = "large"', 'model = "large"\ncredential = "nosuch"')
    edit(project, 'model = "small"', 'model = "small"\noptions = { faults = { truncated = 1.0 } }')
    panel = project / "panel.jsonl"
    panel.write_text(panel.read_text().replace("contract", "contrast", 1))
    examined = say(canaryd, "doctor")
    lines = [line.split(maxsplit=3) for line in examined.out.splitlines() if line.startswith(("ok", "FAIL"))]
    said = {(check, arm): mark for mark, check, arm, *_ in lines}
    assert said[("key", "tracked")] == "FAIL", examined.out
    assert "-> put the key where it is looked for; until then this arm is not measured, and the others are" in (
        examined.out
    )
    assert {arm for check, arm in said if check == "clock"} == {"tracked", "control"}
    assert {arm for check, arm in said if check == "sandbox"} == {"tracked", "control"}
    assert "FAIL  panel " in examined.out
    (canary,) = [line for line in examined.out.splitlines() if " canary " in line]
    assert "truncated" in canary
    assert "raise max_tokens" in examined.out
    assert examined.code == 69


def test_another_seed_than_the_registered_one_is_refused(canaryd: Any, project: Path) -> None:
    edit(project, "[[series.arm]]", "seed = 2\n[[series.arm]]")
    refused = say(canaryd, "run")
    assert refused.code == 69
    assert "was registered with seed = 1, and the configuration says 2; restore it" in refused.err
    reasons = [run["reason"] for run in say(canaryd, "status", "--json").json["series"][0]["last_runs"]]
    assert [reason.split(":")[0] for reason in reasons] == ["registration_mismatch"] * 2


def test_what_status_names_shows_what_is_not_as_registered(canaryd: Any, project: Path) -> None:
    checked = say(canaryd, "config", "check")
    assert "as registered" in checked.out
    assert "warning: nothing copies the store, and without [backup] no alert says so" in checked.err
    edit(project, "[[series]]", '[backup]\nfolder = "copies"\n[[series]]')
    assert "nothing copies" not in say(canaryd, "config", "check").err

    registration = project / "prereg.toml"
    as_registered = registration.read_text()
    registration.write_text(f"{as_registered}# one more line\n")
    assert say(canaryd, "run").code == 69
    assert "tracked: BLOCKED registration_mismatch   run: canaryd config check\n" in say(canaryd, "status").out
    checked = say(canaryd, "config", "check")
    assert (checked.code, "prereg.toml: was edited after the series was registered" in checked.err) == (69, True)
    registration.write_text(as_registered)

    panel = project / "panel.jsonl"
    panel.write_text(panel.read_text().replace("contract", "contrast", 1))
    Path(lock_path(str(panel))).write_bytes(freeze(load(str(panel), graders=graders)))
    assert say(canaryd, "run").code == 69
    assert "control: BLOCKED panel_mismatch   run: canaryd doctor --series main\n" in say(canaryd, "status").out
    examined = say(canaryd, "doctor", "--series", "main")
    assert (examined.code, "the series was registered with" in examined.out) == (69, True), examined.out
    assert "the series was registered with" in say(canaryd, "config", "check").err


def test_until_something_was_measured_only_the_registered_model_is_asked(canaryd: Any, project: Path) -> None:
    edit(project, 'model = "large"', 'model = "large"\noptions = { faults = { auth = 1.0 } }')
    assert "tracked: config_error canary_failed: auth" in say(canaryd, "run").out
    edit(project, 'model = "large"\noptions = { faults = { auth = 1.0 } }', 'model = "larger"')
    refused = say(canaryd, "run")
    assert refused.code == 69
    assert "arm 'tracked' was registered as simulated large, and 'main' would ask simulated larger" in refused.err


def test_under_a_demo_clock_a_later_slot_can_be_named(canaryd: Any, project: Path) -> None:
    assert say(canaryd, "run").code == 0
    later = (today() + timedelta(days=2)).isoformat()
    real = say(canaryd, "run", "--slot", later)
    assert (real.code, "only today's slot" in real.err) == (64, True)
    (project / "clock.txt").write_text(f"{today()}T23:00:00+00:00\n")
    edit(project, "[schedule]", '[demo]\nclock = "clock.txt"\n[schedule]')
    assert say(canaryd, "run", "--slot", later).code == 0
    assert (project / "clock.txt").read_text() == f"{later}T03:10:00+00:00\n"
    runs = say(canaryd, "status", "--json").json["series"][0]["last_runs"]
    assert {(run["slot_date"], run["outcome"]) for run in runs} == {(later, "completed")}
    assert say(canaryd, "run", "--slot", today().isoformat()).code == 64


def test_a_rehearsal_says_which_arm_was_closed_on_which_days(canaryd: Any, project: Path) -> None:
    (project / "clock.txt").write_text(f"{today()}T00:00:00+00:00\n")
    edit(project, "[schedule]", '[demo]\nclock = "clock.txt"\n[schedule]')
    edit(project, 'model = "small"', 'model = "small"\ncredential = "mine"')
    one = say(canaryd, "rehearse", "--days", "2")
    span = f"2 times from {today()} to {today() + timedelta(days=1)}"
    assert (one.code, f"  {span}, control: refused credentials: there is no key 'mine'" in one.out) == (0, True), (
        one.out
    )
    edit(project, 'model = "large"', 'model = "large"\ncredential = "mine"')
    none = say(canaryd, "rehearse", "--days", "1")
    assert (none.code, "no arm of main was asked on any of these days" in none.err) == (69, True), none.err


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


def test_an_arm_that_cannot_be_asked_leaves_its_reason_and_the_other_runs(canaryd: Any, project: Path) -> None:
    edit(project, 'model = "small"', 'model = "small"\noptions = { seed = "x" }')
    refused = say(canaryd, "run")
    assert refused.code == 69
    assert "tracked: completed" in refused.out
    assert "control: refused configuration: arm 'control': options.seed" in refused.out
    assert "control: BLOCKED configuration   run: canaryd doctor --series main\n" in say(canaryd, "status").out
    said = say(canaryd, "doctor").out
    assert "FAIL  arm          control  arm 'control': options.seed" in said
    assert "-> mend the arm's table in the configuration; until then this arm is not measured" in said


def test_the_exit_code_of_a_series_without_any_key_says_so(canaryd: Any, project: Path) -> None:
    edit(project, 'model = "small"', 'model = "small"\ncredential = "mine"')
    one = say(canaryd, "run")
    assert (one.code, "tracked: completed" in one.out) == (69, True), one.err
    assert "control: refused credentials: there is no key 'mine'" in one.out
    none = say(canaryd, "run")
    assert (none.code, "not complete (control)" in none.err) == (77, True), none.err
    exported = say(canaryd, "metrics").out
    assert 'canaryd_run_blocked{arm="control",reason="credentials",series="main"} 1.0' in exported
    assert 'canaryd_run_blocked{arm="tracked",reason="credentials",series="main"} 0.0' in exported
    assert "control: BLOCKED credentials   run: canaryd doctor --series main\n" in say(canaryd, "status").out


def claim(store: Store, lease: Lease) -> None:
    """Open today's run of the tracked arm, as a process would that is killed in it."""
    now = datetime.now(UTC)
    with store.read() as connection:
        series = read.series(connection, "main")
    start = RunStart("main", "tracked", now.date(), 1, now, now, series.panel_digest, series.registration_digest, "f")
    claim_slot(store, [start], lease=lease, epoch=1)


def test_a_series_that_is_held_has_its_own_code_and_another_provider_is_refused(canaryd: Any, project: Path) -> None:
    with open_store(f"sqlite:///{project / 'canaryd.db'}") as store, held(store, "main", clock=SystemClock()) as lease:
        refused = say(canaryd, "run")
        assert (refused.code, f"is held by process {os.getpid()}" in refused.err) == (75, True), refused.err
        assert f"lease        held by process {os.getpid()}" in say(canaryd, "doctor").out
        claim(store, lease)
        assert "tracked: the run of" in say(canaryd, "status").out
        (measured,) = say(canaryd, "status", "--json").json["series"][0]["open_runs"]
        assert measured["is_running"] is True
        with store.write() as connection:
            connection.execute(update(schema.lease).values(process_start=schema.lease.c.process_start - 1))
        (killed,) = say(canaryd, "status", "--json").json["series"][0]["open_runs"]
        assert killed == {**measured, "is_running": False}
        assert (
            "and its process is gone; `canaryd run` or the daemon's next tick closes it" in say(canaryd, "status").out
        )
        assert "ok    lease        free" in say(canaryd, "doctor").out
    edit(
        project, 'provider = "simulated"\nmodel = "small"', 'provider = "openai"\nmodel = "small"\ncredential = "mine"'
    )
    refused = say(canaryd, "run", "--series", "main")
    assert refused.code == 69, "before the first run only the registered provider may be asked"
    edit(project, 'provider = "openai"\nmodel = "small"', 'provider = "simulated"\nmodel = "small"')
    refused = say(canaryd, "run")
    assert (refused.code, "control: refused credentials: there is no key 'mine'" in refused.out) == (69, True)


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
