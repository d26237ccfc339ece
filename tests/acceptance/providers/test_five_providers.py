"""Five series, one on each real provider: every misbehaviour ends as its failure kind, and none of them as a score."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from canaryd.config import parse
from canaryd.daily import decide_due
from canaryd.records import HARNESS_FAILURES, OUTCOME_FAILURES, TRANSPORT_FAILURES

ITEMS = {
    f"i{n}": {
        "family": "f",
        "cluster": f"c{n}",
        "prompt": f"What is {n} + {n}?",
        "target": str(2 * n),
        "grader": {"type": "exact"},
    }
    for n in range(20)
}
PATIENCE_S = 120.0
SERIES = ("openai", "anthropic", "bedrock", "claude", "http")
#: Where a reply always names its model, so that an arm may insist on one.
NAMED = {"openai", "anthropic", "http"}


class Script:
    """Says what each tracked arm's questions meet: nothing on day 1, outcome failures on day 2, all others on day 3."""

    def __init__(self, kinds: Mapping[str, str | None]) -> None:
        self.kinds = dict(kinds)
        self.project: Any = None
        self.day = 1
        self.met: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
        self.left: dict[tuple[str, int], list[str]] = {}

    def cases(self, series: str, day: int) -> list[str]:
        """The misbehaviours of a series' day; the first question of a day is left in peace."""
        known = [*self.project.wire(series)["CASES"], "same id", *(["other settings"] if series == "http" else [])]
        if day == 1:
            return ["first id"]
        early = [case for case in known if self.expected(series, case) in {None, *OUTCOME_FAILURES}]
        return ["good", *(early if day == 2 else [case for case in known if case not in early])]

    def expected(self, series: str, case: str) -> str | None:
        """The failure kind that a case must end as."""
        if case == "echo" and series in NAMED:
            return "served_other"  # the arm expects another name than the one that it asks for
        return {"same id": "replayed", "other settings": "config_mismatch"}.get(case, self.kinds.get(case))

    def __call__(self, series: str, role: str, item_id: str, _: Any) -> dict[str, Any]:
        case = "good"
        if role == "tracked" and item_id != "pre-flight":
            left = self.left.setdefault((series, self.day), self.cases(series, self.day))
            met = self.met[series, self.day]
            if item_id not in met:
                met[item_id] = left.pop(0) if left else "good"
            case = met[item_id]
        played = "good" if case in ("first id", "same id", "other settings") else case
        reply = self.project.reply(series, item_id, played)
        if case in ("first id", "same id"):
            reply = self.project.same_id(series, reply)
        if series == "http":
            reply["body"] = reporting(reply["body"], model="m-2" if case == "other settings" else "m-1")
        return reply


def reporting(body: bytes, *, model: str) -> bytes:
    """Return a whole answer of the application with its configuration in it; what is no whole answer stays."""
    try:
        answer = json.loads(body)
    except ValueError:
        return body
    if "answers" not in answer:
        return body
    return json.dumps({**answer, "settings": {"provider": "own", "model": model}}).encode()


def test_every_misbehaviour_ends_as_its_kind_and_none_as_a_score(
    real_providers: Any, kinds: Mapping[str, str | None], port: int
) -> None:
    script = Script(kinds)
    project = script.project = begun(real_providers, script)
    with daemon(project.folder, port) as all_idle_until:
        for script.day, next_run in ((1, "2027-01-02 03:10"), (2, "2027-01-03 03:10"), (3, "2027-01-03 03:25")):
            project.set_clock(script.day)
            all_idle_until(next_run)

    project.set_clock(5, 0, 5)  # nobody ran day 4, the second one of the window
    config = parse((project.folder / "config.toml").read_text(), path=project.folder / "config.toml")
    for series in SERIES:
        for day in (1, 2, 3):
            assert stored(project, series, day=day, arm="control") == dict.fromkeys(ITEMS, (None, 1))
            met, found = script.met[series, day], stored(project, series, day=day, arm="tracked")
            assert not script.left.get((series, day))
            for item in ITEMS:
                kind, calls = found[item]
                case = met[item]
                assert kind == script.expected(series, case), (series, day, case)
                waits = case == "rate limited" and series != "claude"  # longer than the configuration allows
                assert calls == (2 if kind in TRANSPORT_FAILURES and not waits else 1), (series, case)
        (verdict,) = decide_due(config, series)
        failed = sum(script.expected(series, case) in HARNESS_FAILURES for case in script.met[series, 3].values())
        assert (verdict.kind, "error_rate" in verdict.reasons) == ("not_evaluable", True)
        # The baseline holds the outcome failures of day 2, which are no errors.
        assert error_rates(verdict.clauses["window"]) == {
            "baseline_error_rate": (True, 0.0),
            "error_rate": (False, pytest.approx(failed / len(ITEMS))),
        }
        of_control = error_rates(verdict.clauses["controls"]["control"]["window"])
        assert of_control == {"baseline_error_rate": (True, 0.0), "error_rate": (True, 0.0)}


def begun(real_providers: Any, script: Script) -> Any:
    """Return a registered project of five series, each with a control."""
    project = real_providers(script, items=ITEMS, timeout_s=5.0)
    (project.folder / "key").write_text("planted-key")
    (project.folder / "aws").write_text("AKIAPLANTED000000000:planted-secret")
    arms = {}
    for series in SERIES:
        changes = {"expect_resolved": "m-1-0513"} if series in NAMED else {}
        arms[series] = [
            project.arm(series, role, credential="aws" if series == "bedrock" else "key", **changes)
            for role in ("tracked", "control")
        ]
    for arm in arms["http"]:
        arm["options"] = {**arm["options"], "config_path": "settings"}
    project.write(
        arms,
        head='[credentials]\nkey_file = "key"\naws_file = "aws"\n'
        "[retry]\ncalls = 2\nfirst_wait_s = 0.0\ntotal_wait_s = 0.0",
    )
    return project


@contextmanager
def daemon(folder: Path, port: int) -> Iterator[Callable[[str], None]]:
    """Keep the one resident process of a project; yields a function that waits until nothing is to do before a time."""
    command = [sys.executable, "-m", "canaryd", "--config", str(folder / "config.toml"), "daemon"]
    # The folder of the report pages cannot be made: they have tests of their own, and drawing them takes longest.
    (folder / "no-folder").touch()
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "CACHE_DIRECTORY": str(folder / "no-folder")}
    with (folder / "daemon.log").open("wb") as log:
        listen = ["--web.listen-address", f"127.0.0.1:{port}"]
        process = subprocess.Popen([*command, *listen], cwd=folder, env=environment, stderr=log)

    def all_idle_until(next_run: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (said := (folder / "daemon.log").read_text()).count(f"idle, next run {next_run}") < len(SERIES):
            assert process.poll() is None, said
            assert time.monotonic() < deadline, f"not idle until {next_run} within {PATIENCE_S:.0f} s: {said}"
            time.sleep(0.1)

    try:
        yield all_idle_until
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, (folder / "daemon.log").read_text()


def error_rates(state: Mapping[str, Any]) -> dict[str, tuple[bool, float]]:
    """Return whether the clauses about errors passed, and with what share."""
    found = {clause["clause"]: (clause["passed"], clause["figure"]) for clause in state["evaluable"]}
    return {name: found[name] for name in ("baseline_error_rate", "error_rate")}


def stored(project: Any, series: str, *, day: int, arm: str) -> dict[str, tuple[str | None, int]]:
    """Return failure kind and calls of every sample; one that has no failure must hold the whole score."""
    query = (
        "SELECT item_id, failure_kind, calls, score FROM sample JOIN run_start USING (run_id) "
        f"WHERE series = '{series}' AND slot_date = '2027-01-0{day}' AND arm = '{arm}'"
    )
    with closing(sqlite3.connect(project.folder / "canaryd.db")) as connection:
        rows = connection.execute(query).fetchall()
    assert all((score is None) if kind else (score == 1.0) for _, kind, _, score in rows)
    return {item: (kind, calls) for item, kind, calls, _ in rows}
