"""Re-grading stored replies: identical, differing, expired; and verdicts that hang on the version of a grader."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from sqlalchemy import text

from canaryd import graders, panel, sandbox
from canaryd.analysis import analyse
from canaryd.errors import ConfigError, MeasurementRefused, UsageError
from canaryd.hashing import digest
from canaryd.records import Arm, Failure, Grade, Item, Reply, RunEnd, RunStart, Sample, SampleKey
from canaryd.regrade.replies import Bench, regrade
from canaryd.regrade.verdicts import format_moves
from canaryd.report.markdown import as_markdown
from canaryd.report.render import build_document, load_report
from canaryd.runner import programs
from canaryd.sandbox import Bwrap
from canaryd.sandbox.backends import Transcript
from canaryd.store import regrades
from canaryd.store.engine import RowRefused, Store
from canaryd.store.lease import Lease, LeasePolicy, acquire_lease
from canaryd.store.ledger import first_difference
from canaryd.store.process import Holder
from canaryd.store.retention import expire_texts
from canaryd.store.rows import Invalid, PanelFiles, Plan
from canaryd.store.write import append_samples, append_validity, claim_slot, end_run, register_series

DAY_1 = date(2030, 1, 1)
NOW = datetime(2030, 3, 1, tzinfo=UTC)
SYSTEM = b"Answer.\n"
PREREG = (Path(__file__).parents[2] / "prereg.example.toml").read_bytes()
ITEMS = 24
real = pytest.mark.skipif(
    shutil.which("bwrap") is None and not os.environ.get("CANARYD_REQUIRE_REAL"), reason="bubblewrap is not installed"
)


class Broken:
    """A sandbox that never works."""

    def complaints(self) -> list[str]:
        return ["there is none"]

    def cure(self) -> str:
        return "mend it"

    def tools(self) -> dict[str, str]:
        return {}

    def exchange(self, request: bytes, *, wall_s: float) -> Transcript:
        raise OSError("there is none")


def bench(backend: Any = None) -> Bench:
    return Bench(backend or Broken(), random.Random(1))


def panel_lines(*rows: dict[str, Any]) -> bytes:
    header = {"name": "p", "version": "1", "licence": "CC0-1.0", "canary": "fe123b5f-91c3-5852-901c-670d971bb5fd"}
    return b"".join(json.dumps(row).encode() + b"\n" for row in (header, *rows))


def exact_rows(count: int = ITEMS) -> list[dict[str, Any]]:
    return [
        {
            "id": f"w-{n:02}",
            "family": "words",
            "cluster": f"c{n // 2}",
            "prompt": f"Repeat: word{n}",
            "target": f"word{n}",
            "grader": {"type": "exact"},
        }
        for n in range(count)
    ]


@dataclasses.dataclass
class Measured:
    """A series whose replies the test writes, graded by the real graders as they are at that moment."""

    store: Store
    items: dict[str, Item]
    lease: Lease
    plan: Plan

    def day(self, number: int, arm: str, replies: dict[str, str], **results: Grade | Failure) -> dict[str, int]:
        """Store a day's replies and return the ids of the samples; `results` overrules the grader for an item."""
        slot_date = DAY_1 + timedelta(days=number - 1)
        at = datetime.combine(slot_date, time(3), UTC)
        start = RunStart(
            "s", arm, slot_date, 1, at, at, self.plan.panel.digest, self.plan.registration_digest, "sha256:h"
        )
        runs = claim_slot(self.store, [start], lease=self.lease, epoch=1)
        assert isinstance(runs, tuple)
        content = [
            Sample(
                SampleKey("s", arm, slot_date, item_id, 0),
                results.get(item_id) or graders.grade(self.items[item_id], said),
                Reply(said, "stop", output_tokens=5),
                asked_at=at,
                ended_at=at,
            )
            for item_id, said in replies.items()
        ]
        ids = append_samples(self.store, content, run_id=runs[0].run_id, lease=self.lease)
        end_run(self.store, RunEnd(at, "completed"), run_id=runs[0].run_id, lease=self.lease)
        return dict(zip(replies, ids, strict=True))


def begin(store: Store, rows: list[dict[str, Any]]) -> Measured:
    content = panel_lines(*rows)
    frozen = panel.parse(content, SYSTEM, graders=graders)
    plan = Plan(
        series="s",
        registered_at=datetime.combine(DAY_1, time(), UTC),
        start_date=DAY_1,
        seed=1,
        registration=PREREG,
        registration_digest=digest(PREREG),
        panel=PanelFiles(frozen.digest, "p", "1", content, SYSTEM),
        items=frozen.items,
        arms=(Arm("new", "tracked", "simulated", "m-1"), Arm("ctl", "control", "simulated", "m-2")),
    )
    register_series(store, plan)
    policy = LeasePolicy(ttl=timedelta(days=100), is_alive=lambda holder: True)
    lease = acquire_lease(store, "s", holder=Holder("h", "m", 1, 1), now=plan.registered_at, policy=policy)
    return Measured(store, {item.item_id: item for item in frozen.items}, lease, plan)


def said(n: int, *, form: str = "<answer>word{n}</answer>") -> str:
    return form.format(n=n)


def second_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the exact grader become version 2, which also reads an answer after "FINAL:"."""
    newer = dataclasses.replace(graders.GRADERS["exact"], version=2)
    known = graders.extract

    def extract(reply: str, fallbacks: tuple[str, ...]) -> str | None:
        found = known(reply, fallbacks)
        return reply.partition("FINAL:")[2].strip() or None if found is None else found

    monkeypatch.setattr(graders, "GRADERS", MappingProxyType({**graders.GRADERS, "exact": newer}))
    monkeypatch.setattr(graders, "extract", extract)


def test_the_same_graders_say_the_same_and_nothing_stored_changes(store: Store) -> None:
    measured = begin(store, exact_rows(4))
    measured.day(1, "new", {"w-00": said(0), "w-01": "word1", "w-02": said(2), "w-03": "no"})
    with store.read() as connection:
        before = connection.execute(text("SELECT * FROM sample ORDER BY sample_id")).all()
        assert regrades.latest_mismatches(connection, "s") is None
    done = regrade(store, "s", since=None, now=NOW, bench=bench())
    assert (done.replies, done.identical, done.differences, done.graders) == (4, 4, (), ("exact@1",))
    with store.read() as connection:
        assert connection.execute(text("SELECT * FROM sample ORDER BY sample_id")).all() == before
        assert regrades.latest_mismatches(connection, "s") == 0
        assert regrades.latest_whole(connection, "s") == done
        assert first_difference(connection, "s") is None
        assert format_moves(connection, "s") == ()


def test_a_difference_has_both_grades_and_both_versions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = begin(store, exact_rows(4))
    ids = measured.day(1, "new", {"w-00": said(0), "w-01": "FINAL: word1"})
    measured.day(2, "new", {"w-00": said(0), "w-01": "FINAL: no"})
    second_format(monkeypatch)
    done = regrade(store, "s", since=None, now=NOW, bench=bench())
    assert (done.replies, done.identical, done.graders) == (4, 2, ("exact@2",))
    first, second = done.differences
    assert (first.sample_id, first.key) == (ids["w-01"], SampleKey("s", "new", DAY_1, "w-01", 0))
    assert isinstance(first.old, Grade)
    assert isinstance(first.new, Grade)
    assert (first.old.score, first.old.answered, first.old.grader) == (0.0, False, "exact@1")
    assert (first.new.score, first.new.answered, first.new.grader) == (1.0, True, "exact@2")
    assert isinstance(second.new, Grade)
    assert (second.new.score, second.new.answered) == (0.0, True)
    with store.read() as connection:
        assert regrades.latest_whole(connection, "s") == done


def test_every_pass_is_appended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = begin(store, exact_rows(4))
    measured.day(1, "new", {"w-00": "FINAL: word0"})
    regrade(store, "s", since=None, now=NOW, bench=bench())
    second_format(monkeypatch)
    regrade(store, "s", since=None, now=NOW, bench=bench())
    partly = regrade(store, "s", since=DAY_1 + timedelta(days=1), now=NOW, bench=bench())
    assert partly.replies == 0
    with store.read() as connection:
        rows = connection.execute(text("SELECT identical, differing FROM regrade ORDER BY regrade_id")).all()
        assert [tuple(row) for row in rows] == [(1, 0), (0, 1), (0, 0)]
        assert regrades.latest_mismatches(connection, "s") == 0
        whole = regrades.latest_whole(connection, "s")
    assert whole is not None
    assert len(whole.differences) == 1
    for table in ("regrade", "regrade_difference"):
        with pytest.raises(RowRefused, match="append-only"), store.write() as connection:
            connection.execute(text(f"DELETE FROM {table}"))


def test_a_reply_without_its_text_is_counted_and_one_without_a_grade_is_not(store: Store) -> None:
    measured = begin(store, exact_rows(4))
    measured.day(1, "new", {"w-00": said(0), "w-01": said(1)})
    cut, fault = Failure("truncated", "length"), Failure("grader_error", "it failed")
    measured.day(2, "new", {"w-00": said(0), "w-01": "wor", "w-02": said(2)}, **{"w-01": cut, "w-02": fault})
    assert expire_texts(store, "s", before=DAY_1 + timedelta(days=1), now=NOW) == 2
    done = regrade(store, "s", since=None, now=NOW, bench=bench())
    assert (done.expired, done.identical, done.replies) == (2, 1, 4)
    (again,) = done.differences
    assert (again.old, again.key.item_id) == (fault, "w-02")
    assert isinstance(again.new, Grade)


def test_what_does_not_count_enters_no_recomputation(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = exact_rows(3)
    rows[2] = {key: value for key, value in rows[2].items() if key != "family"} | {"sentinel": True}
    measured = begin(store, rows)
    ids = measured.day(1, "new", {"w-00": "FINAL: word0", "w-01": "FINAL: word1", "w-02": "FINAL: word2"})
    append_validity(store, Invalid("operator", "", NOW, sample_id=ids["w-01"]))
    second_format(monkeypatch)
    assert len(regrade(store, "s", since=None, now=NOW, bench=bench()).differences) == 3
    with store.read() as connection:
        whole = regrades.latest_whole(connection, "s")
    assert whole is not None
    assert [each.key.item_id for each in whole.differences] == ["w-00"]


def test_a_panel_that_todays_graders_cannot_judge_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(store, exact_rows(4))
    rest = {name: grader for name, grader in graders.GRADERS.items() if name != "exact"}
    monkeypatch.setattr(graders, "GRADERS", MappingProxyType(rest))
    with pytest.raises(ConfigError, match=r"panel of series s:2: .*exact"):
        regrade(store, "s", since=None, now=NOW, bench=bench())
    with pytest.raises(UsageError, match="not registered"):
        regrade(store, "other", since=None, now=NOW, bench=bench())


def code_row() -> dict[str, Any]:
    """An item of code out of the starter panel, whose form is the grader's own affair."""
    starter = Path(__file__).parents[2] / "panel" / "starter.jsonl"
    rows = (json.loads(line) for line in starter.read_text().splitlines()[1:])
    return next(row for row in rows if row["grader"]["type"] == "code")


@real
def test_programs_run_in_the_sandbox_again(store: Store) -> None:
    row = code_row()
    measured = begin(store, [*exact_rows(1), row])
    item = measured.items[row["id"]]
    right = Grade(1.0, answered=True, passed=True, grader="code@1")
    measured.day(1, "new", {row["id"]: graders.right_reply(item)}, **{row["id"]: right})
    measured.day(2, "new", {row["id"]: "<answer>def nothing(): pass</answer>"}, **{row["id"]: right})
    done = regrade(store, "s", since=None, now=NOW, bench=bench(Bwrap()))
    assert (done.replies, done.identical, done.graders) == (2, 1, ("code@1",))
    (wrong,) = done.differences
    assert wrong.key.slot_date == DAY_1 + timedelta(days=1)
    assert isinstance(wrong.new, Grade)
    assert wrong.new.score == 0.0


def test_without_the_sandbox_nothing_is_said_of_programs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    row = code_row()
    measured = begin(store, [*exact_rows(1), row])
    right = Grade(1.0, answered=True, passed=True, grader="code@1")
    reply = graders.right_reply(measured.items[row["id"]])
    measured.day(1, "new", {"w-00": said(0), row["id"]: reply}, **{row["id"]: right})
    with pytest.raises(MeasurementRefused, match="there is none"):
        regrade(store, "s", since=None, now=NOW, bench=bench())
    monkeypatch.setattr(sandbox, "probe", lambda **_: None)
    done = regrade(store, "s", since=None, now=NOW, bench=bench())
    assert (done.identical, done.ungraded, done.differences) == (1, 1, ())


def test_a_program_that_once_ran_out_of_time_is_looked_at_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    row = code_row()
    measured = begin(store, [*exact_rows(1), row])
    item = measured.items[row["id"]]
    assert isinstance(item.target, dict)
    came_back = tuple(test["returns"] for test in item.target["tests"])
    runs = iter([graders.JobResult("timeout"), graders.JobResult("returned", came_back)])
    monkeypatch.setattr(sandbox, "probe", lambda **_: None)
    right = Grade(1.0, answered=True, passed=True, grader="code@1")
    measured.day(1, "new", {row["id"]: graders.right_reply(item)}, **{row["id"]: right})
    counted = programs.execute.set(lambda *_, **__: next(runs))
    try:
        assert regrade(store, "s", since=None, now=NOW, bench=bench()).identical == 1
    finally:
        programs.execute.reset(counted)
    assert next(runs, None) is None


def forty_days(measured: Measured, *, form: str) -> None:
    """Measure a baseline and two windows in which both arms know three words of four, at random.

    In the windows the tracked arm writes half of what it knows in another form.
    """
    rng = random.Random(7)
    for number in range(1, 41):
        for arm in ("new", "ctl"):
            replies = {}
            for n in range(ITEMS):
                moved = arm == "new" and number > 20 and rng.random() < 0.5
                knows = rng.random() < 0.75
                word = n if knows else -1
                replies[f"w-{n:02}"] = said(word, form=form if moved else "<answer>word{n}</answer>")
            measured.day(number, arm, replies)


AFTER = datetime.combine(DAY_1 + timedelta(days=40), time(1), UTC)


@pytest.mark.parametrize("expired", [False, True])
def test_a_drop_that_one_grader_version_alone_sees_is_the_format(
    store: Store, monkeypatch: pytest.MonkeyPatch, expired: bool
) -> None:
    measured = begin(store, exact_rows())
    forty_days(measured, form="FINAL: word{n}")
    verdicts = analyse(store, "s", lease=measured.lease, now=AFTER)
    assert [(one.kind, one.direction) for one in verdicts] == [("insufficient_data", None), ("change", "down")]
    if expired:
        expire_texts(store, "s", before=DAY_1 + timedelta(days=1), now=NOW)
    second_format(monkeypatch)
    done = regrade(store, "s", since=None, now=NOW, bench=bench())
    assert len(done.differences) > 150
    kept = f" ({2 * ITEMS} replies whose text has expired keep their grade)" if expired else ""
    with store.read() as connection:
        (sentence,) = format_moves(connection, "s")
        printed = as_markdown(build_document(load_report(connection, "s", headline="h")), prefix="s")
    assert sentence in printed, "the report says so too"
    assert sentence == (
        "window 2: the drop exists only as exact@1 grades; as exact@2 grades the same replies there is no change: "
        f"the format moved, not the content{kept}"
    )


def test_a_drop_that_only_the_newer_version_sees_is_the_format_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = begin(store, exact_rows())
    with monkeypatch.context() as patched:
        second_format(patched)
        forty_days(measured, form="FINAL: word{n}")
        verdicts = analyse(store, "s", lease=measured.lease, now=AFTER)
    assert [one.kind for one in verdicts] == ["insufficient_data", "no_change_detected"]
    regrade(store, "s", since=None, now=NOW, bench=bench())
    with store.read() as connection:
        (sentence,) = format_moves(connection, "s")
    assert sentence.startswith("window 2: the drop exists only as exact@1 grades; as exact@2 grades")


def test_a_drop_under_both_versions_is_no_matter_of_format(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = begin(store, exact_rows())
    forty_days(measured, form="<answer>nothing{n}</answer> FINAL")
    measured.day(41, "ctl", {"w-00": "FINAL: word0"})
    verdicts = analyse(store, "s", lease=measured.lease, now=AFTER)
    assert verdicts[-1].kind == "change"
    second_format(monkeypatch)
    assert len(regrade(store, "s", since=None, now=NOW, bench=bench()).differences) == 1
    with store.read() as connection:
        assert format_moves(connection, "s") == ()
