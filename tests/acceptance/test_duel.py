"""`canaryd duel` as a process, against judges on loopback."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from canaryd.duel.model import Question
from canaryd.duel.simulated import JudgeServer, SimulatedJudge

PLAN = """
name = "planted"
fixture = "fixture.jsonl"
retrieval_tokens = 50
[weights]
x = 0.75
y = 0.25
[threshold]
min_gap = 0.2
min_fabrication_ratio = 2
min_fabrications_against_zero = 3
confidence = 0.95
max_unjudged_share = 0.05
bootstrap_draws = 1000
max_anchors_moved = 0
[budget]
max_calls = 200
[substrate.a]
id = "left"
kind = "command"
command = ["sed", "s/.*/[doc#&]/; s/[#]lose.*/#other]/"]
timeout_s = 20
[substrate.b]
id = "right"
kind = "command"
command = ["sed", "s/.*/[doc#&]/; s/[#]win.*/#other]/"]
timeout_s = 20
[[judge]]
family = "first"
provider = "openai"
model = "one"
version = "1"
base_url = "http://127.0.0.1:PORT/v1"
credential = "judge"
timeout_s = 30
concurrency = 1
[[judge]]
family = "second"
provider = "openai"
model = "two"
version = "1"
base_url = "http://127.0.0.1:PORT/v1"
credential = "judge"
timeout_s = 30
concurrency = 1
[credentials]
judge_file = "key.txt"
"""

#: In family x substrate a retrieves the right section of 6 and b of 2 more; in y they are alike.
QUERIES = {
    "x": [*(f"win-{n}" for n in range(6)), *(f"lose-{n}" for n in range(2)), "same-0", "same-1"],
    "y": [f"same-{n}" for n in range(2, 8)],
}
QUESTIONS = [
    Question(f"{family}-{query}", family, query, expected_doc_id=f"doc#{query}")
    for family, queries in QUERIES.items()
    for query in queries
]
TWO = (SimulatedJudge("one"), SimulatedJudge("two"))


class Table:
    """One duel on disk with its judges."""

    def __init__(self, folder: Path, server: JudgeServer, plan: str) -> None:
        self.server = server
        self.plan = folder / "duel.toml"
        self.plan.write_text(plan.replace("PORT", str(server.port)))
        self.record = folder / "duel.judged.jsonl"
        (folder / "key.txt").write_text("sk-a-key-for-loopback\n")
        rows = [
            {"id": q.id, "family": q.family, "query": q.query, "expected_doc_id": q.expected_doc_id} for q in QUESTIONS
        ]
        (folder / "fixture.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.record.read_text().splitlines()]


Lay = Callable[..., Table]


@pytest.fixture
def lay(tmp_path: Path) -> Iterator[Lay]:
    with ExitStack() as opened:

        def build(judges: Any = TWO, folder: str = "duel", plan: str = PLAN) -> Table:
            (tmp_path / folder).mkdir()
            server = opened.enter_context(JudgeServer(judges, questions=QUESTIONS, port=0))
            return Table(tmp_path / folder, server, plan)

        yield build


def test_a_planted_duel_gives_the_exact_counts(canaryd: Any, lay: Lay) -> None:
    table = lay()
    assert canaryd("duel", "register", table.plan).code == 0
    run = canaryd("duel", "run", table.plan)
    assert (run.code, table.server.calls) == (0, 4 * len(QUESTIONS)), run.err
    assert "left and right differ, by the gap: weighted, left leads by 30.0 points" in run.out
    report = canaryd("duel", "report", table.plan, "--json").json
    assert [(one["name"], one["questions"], one["wins"]) for one in report["families"]] == [
        ("x", 10, {"a": 6, "b": 2}),
        ("y", 6, {"a": 0, "b": 0}),
    ]
    assert report["verdict"] == "pass"
    assert report["scores"] == {"a": {"uniform": 0.3, "weighted": 0.45}, "b": {"uniform": 0.1, "weighted": 0.15}}
    assert report["diagnostics"]["expected_documents"]["a"]["value"] == pytest.approx(14 / 16)
    assert report["diagnostics"]["kappa"] == 1.0


def test_a_judge_that_always_prefers_the_first_position_yields_only_ties(canaryd: Any, lay: Lay) -> None:
    table = lay((SimulatedJudge("one", first_bias=1.0), SimulatedJudge("two", first_bias=1.0)))
    canaryd("duel", "register", table.plan)
    run = canaryd("duel", "run", table.plan)
    assert (run.code, "neither leads" in run.out) == (0, True)
    report = canaryd("duel", "report", table.plan, "--json").json
    assert set(report["winners"].values()) == {"tie"}
    assert [one["first_position"]["value"] for one in report["diagnostics"]["judges"]] == [1.0, 1.0]


def test_a_judge_that_cannot_be_parsed_yields_no_verdict(canaryd: Any, lay: Lay) -> None:
    table = lay((SimulatedJudge("one"), SimulatedJudge("two", rambling=1.0)))
    canaryd("duel", "register", table.plan)
    run = canaryd("duel", "run", table.plan)
    assert (run.code, "No verdict: 16 of 16 questions could not be judged" in run.out) == (2, True)
    assert table.server.calls == 2 * len(QUESTIONS) + 2 * 2 * len(QUESTIONS)
    assert Counter("unjudged" in row for row in table.rows()) == {True: 32, False: 32}
    assert canaryd("duel", "report", table.plan).code == 2


class Holding(SimulatedJudge):
    """A judge that lets the test act in the middle of one call, which is then never answered."""

    __slots__ = ()
    held_call = 0
    reached = threading.Event()
    go_on = threading.Event()
    made = 0

    def answer(self, prompt: str, documents: Any) -> str:
        Holding.made += 1
        if Holding.made == Holding.held_call:
            Holding.reached.set()
            Holding.go_on.wait(timeout=60)
        return super().answer(prompt, documents)


def test_a_killed_duel_repeats_no_recorded_call(canaryd: Any, lay: Lay) -> None:
    Holding.held_call, Holding.made = 23, 0
    table = lay((Holding("one"), Holding("two")))
    canaryd("duel", "register", table.plan)
    running = subprocess.Popen(
        [sys.executable, "-m", "canaryd", "duel", "run", str(table.plan)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        assert Holding.reached.wait(timeout=60)
        second = canaryd("duel", "run", table.plan)
        assert (second.code, "another process is running this duel" in second.err) == (75, True)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
        Holding.go_on.set()
    before = table.record.read_bytes()
    assert before.count(b"\n") == 22
    table.record.write_bytes(before + b'{"schema_version":1,"duel":"sha')
    run = canaryd("duel", "run", table.plan)
    assert run.code == 0, run.err
    assert table.server.calls == 4 * len(QUESTIONS) + 1  # the one in flight when it was killed was never recorded
    assert table.record.read_bytes().startswith(before)
    keys = [(row["question_id"], row["judge"], row["ordering"]) for row in table.rows()]
    assert (len(keys), len(set(keys))) == (4 * len(QUESTIONS),) * 2
    again = canaryd("duel", "run", table.plan)
    assert (again.code, table.server.calls) == (0, 4 * len(QUESTIONS) + 1)


def test_a_substrate_that_fails_is_an_error_row(canaryd: Any, lay: Lay) -> None:
    table = lay(plan=PLAN.replace('["sed", "s/.*/[doc#&]/; s/[#]win.*/#other]/"]', '["grep", "-v", "win-0"]'))
    canaryd("duel", "register", table.plan)
    run = canaryd("duel", "run", table.plan)
    assert run.code == 2
    (fault,) = [row for row in table.rows() if "substrate_error" in row]
    assert (fault["question_id"], fault["substrate_id"]) == ("x-win-0", "right")
    assert "exit code 1" in fault["substrate_error"]
    assert table.server.calls == 4 * (len(QUESTIONS) - 1)


def test_a_wrong_key_or_model_ends_after_one_call(canaryd: Any, lay: Lay) -> None:
    table = lay((SimulatedJudge("two"),))
    canaryd("duel", "register", table.plan)
    run = canaryd("duel", "run", table.plan)
    assert (run.code, table.server.calls) == (69, 1)
    assert "judge openai:one:1 could not be asked (not_found" in run.err
    report = canaryd("duel", "report", table.plan)
    assert (report.code, "16 questions are not judged yet" in report.out) == (2, True)


def test_what_was_registered_is_what_runs(canaryd: Any, lay: Lay) -> None:
    table = lay()
    unregistered = canaryd("duel", "run", table.plan)
    assert (unregistered.code, "run `canaryd duel register" in unregistered.err) == (64, True)
    canaryd("duel", "register", table.plan)
    again = canaryd("duel", "register", table.plan)
    assert (again.code, "was registered before" in again.out) == (0, True)
    fixture = table.plan.parent / "fixture.jsonl"
    fixture.write_text(fixture.read_text().replace("win-0", "win-9"))
    for command in ("run", "report"):
        edited = canaryd("duel", command, table.plan)
        assert (edited.code, "fixture.jsonl: was edited after the duel was registered" in edited.err) == (69, True)
    assert canaryd("duel", "register", table.plan).code == 64
    assert table.server.calls == 0


def test_the_budget_is_refused_before_the_first_call_and_kept(canaryd: Any, lay: Lay) -> None:
    small = lay(plan=PLAN.replace("max_calls = 200", "max_calls = 63"))
    refused = canaryd("duel", "register", small.plan)
    assert (refused.code, "16 questions and 0 anchors take 64 judge calls" in refused.err) == (78, True)
    rambling = (SimulatedJudge("one", rambling=1.0), SimulatedJudge("two", rambling=1.0))
    tight = lay(rambling, folder="tight", plan=PLAN.replace("max_calls = 200", "max_calls = 70"))
    canaryd("duel", "register", tight.plan)
    for _ in range(2):
        run = canaryd("duel", "run", tight.plan)
        assert (run.code, "budget.max_calls of the duel is used up" in run.err) == (69, True)
    assert tight.server.calls == 70
    assert "register a copy of the duel with a larger one" in canaryd("duel", "report", tight.plan).out


def test_judges_and_substrates_that_moved(canaryd: Any, lay: Lay) -> None:
    anchored = PLAN.replace('fixture = "fixture.jsonl"', 'fixture = "fixture.jsonl"\nanchors = "anchors.jsonl"')
    anchor = {"id": "a1", "query": "win-0", "retrieval_a": "[doc#win-0]", "retrieval_b": "[doc#other]", "winner": "a"}
    better = anchored.replace("s/[#]win.*/#other]/", "s/[#]nothing.*/#other]/")
    biased = (SimulatedJudge("one", first_bias=1.0), SimulatedJudge("two"))
    tables = {
        "earlier": lay(folder="earlier", plan=anchored),
        "substrate": lay(folder="substrate", plan=better),
        "judge": lay(biased, folder="judge", plan=better),
    }
    for table in tables.values():
        (table.plan.parent / "anchors.jsonl").write_text(json.dumps(anchor) + "\n")
        assert canaryd("duel", "register", table.plan).code == 0
        assert canaryd("duel", "run", table.plan).code == 0
    for moved in ("substrate", "judge"):
        report = canaryd("duel", "report", tables[moved].plan, "--against", tables["earlier"].plan, "--json").json
        assert report["movement"]["moved"] == moved
        shown = canaryd("duel", "report", tables[moved].plan, "--against", tables["earlier"].plan).out
        assert shown.startswith("reduced comparability: the judges differ")  # they listen on another port
        assert f"What moved: {moved}." in shown
    assert tables["earlier"].server.calls == 4 * (len(QUESTIONS) + 1)


def test_the_example_runs_by_one_command(canaryd: Any, tmp_path: Path) -> None:
    played = canaryd("duel", "demo", "--dir", "example")
    assert played.code == 0, played.err
    assert "64 judged, 0 unjudged" in played.out
    assert "280 judge calls" in played.out
    page = (tmp_path / "example/report.html").read_text()
    assert "<h2>Threshold</h2>" in page
    assert not any(word in page for word in ("http-equiv", "<script", "<link", "src="))
    assert "| compare | 0.2 | 16 |" in (tmp_path / "example/report.md").read_text()
    again = canaryd("duel", "demo", "--dir", "example")
    assert (again.code, "exists already" in again.err) == (64, True)
    assert canaryd("duel", "lint", "example/four.jsonl").out.strip() == "example/four.jsonl: clean, 4 questions"


def test_lint_says_every_line(canaryd: Any, tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text('{"id": "a", "family": "f", "query": ""}\n{"id": "b"}\n')
    found = canaryd("duel", "lint", "f.jsonl")
    assert (found.code, found.out.count("f.jsonl:")) == (78, 2)
    (tmp_path / "f.jsonl").write_text('{"id": "a", "family": "f", "query": "x"}\n')
    found = canaryd("duel", "lint", "f.jsonl")
    assert (found.code, "family 'f' has 1 question, and an interval takes at least 2" in found.out) == (78, True)
    (tmp_path / "f.jsonl").write_text("".join(f'{{"id": "{n}", "family": "f", "query": "x"}}\n' for n in "ab"))
    found = canaryd("duel", "lint", "f.jsonl")
    assert found.code == 0
    for said in ("family 'f' has 2 questions", "2 questions; 60 and more", "'b' asks the same as 'a'"):
        assert said in found.err
