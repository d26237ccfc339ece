"""What goes in comes out, and what breaks a rule stays out, on both databases."""

from __future__ import annotations

import math
import sqlite3
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import func, insert, select, text

from canaryd.errors import UsageError
from canaryd.records import Alarm, EarlyWarningDay, Failure, Grade, RunEnd, Verdict
from canaryd.store import read, samples, schema
from canaryd.store.engine import RowRefused, Store
from canaryd.store.rows import AlreadyClaimed, Invalid, Span
from canaryd.store.schema_texts import reply_text, text_block
from canaryd.store.write import (
    append_alarm,
    append_early_warning,
    append_sample,
    append_samples,
    append_validity,
    append_verdict,
    claim_slot,
    end_run,
    record_missed,
    register_series,
)

AT = datetime(2030, 1, 2, 4, tzinfo=UTC)


def verdict(**changes: Any) -> Verdict:
    values: dict[str, Any] = {
        "series": "s",
        "epoch": 1,
        "window_index": 1,
        "kind": "insufficient_data",
        "direction": None,
        "attribution": None,
        "reasons": ("first window",),
        "decided_at": AT,
        "panel_digest": "sha256:p",
        "registration_digest": "sha256:r",
        "clauses": {"delta": -0.1234567890123456, "n": 78, "hit": False},
    }
    return Verdict(**values | changes)


def test_registration_is_read_back(store: Store, study: Any) -> None:
    plan = study.plan()
    register_series(store, plan)
    with store.read() as connection:
        found = read.series(connection, "s")
        assert (found.registered_at, found.start_date, found.seed) == (plan.registered_at, plan.start_date, plan.seed)
        assert (found.panel_digest, found.registration_digest) == (plan.panel.digest, plan.registration_digest)
        assert found.simulation == {"power": 0.8}
        assert read.all_series(connection) == (found,)
        assert read.registration(connection, "s") == plan.registration
        assert read.panel(connection, plan.panel.digest) == plan.panel
        items = read.panel_items(connection, plan.panel.digest)
        tracked, control = read.arms(connection, "s")
    assert [(item.item_id, item.ordinal, item.family, item.sentinel) for item in items] == [
        ("a", 0, "f", False),
        ("b", 1, "f", False),
        ("c", 2, "f", False),
        ("d", 3, None, True),
    ]
    assert (tracked.name, tracked.role, tracked.model) == ("old", "tracked", "m-1")
    assert tracked.config["base_url"] == "http://h/v1"
    assert tracked.config["params"] == {"temperature": 0.5}
    assert "key_name" not in str(tracked.config)
    assert "base_url" not in control.config


def test_a_panel_is_stored_once_for_two_series(store: Store, study: Any) -> None:
    register_series(store, study.plan("one"))
    register_series(store, study.plan("two"))
    with store.read() as connection:
        assert connection.scalar(select(func.count()).select_from(schema.panel)) == 1
        assert [each.name for each in read.all_series(connection)] == ["one", "two"]


def test_a_series_is_registered_once(store: Store, study: Any) -> None:
    register_series(store, study.plan())
    with pytest.raises(UsageError, match=r"already registered .* register the new plan under another name"):
        register_series(store, study.plan())


def test_a_series_has_one_tracked_arm(store: Store, study: Any) -> None:
    study.register(store)
    second = {"series": "s", "arm": "b", "role": "tracked", "provider": "simulated", "model": "m", "config": {}}
    with pytest.raises(RowRefused), store.write() as connection:
        connection.execute(insert(schema.arm).values(second))


def test_unknown_names_are_said(store: Store) -> None:
    with store.read() as connection:
        for question in (read.series, read.registration):
            with pytest.raises(UsageError, match="'nosuch' is not registered"):
                question(connection, "nosuch")
        with pytest.raises(KeyError):
            read.panel(connection, "sha256:nosuch")


def test_a_run_from_claim_to_end(store: Store, study: Any) -> None:
    lease = study.register(store)
    old, ctl = study.claim(store, lease, study.start(), study.start(arm="ctl"))
    with store.read() as connection:
        assert read.open_runs(connection, "s") == (old, ctl)
        assert read.latest_run(connection, "s", arm="old", outcome="ended") is None
    end = RunEnd(AT, "completed", "")
    end_run(store, end, run_id=old.run_id, lease=lease)
    (later,) = study.claim(store, lease, study.start(3))
    with store.read() as connection:
        first, last = date(2030, 1, 1), date(2030, 1, 2)
        assert [run.end for run in read.runs(connection, "s", first=first, last=last)] == [None, end]
        assert len(read.runs(connection, "s")) == 3
        assert read.latest_run(connection, "s", arm="old") == later
        ended = read.latest_run(connection, "s", arm="old", outcome="completed")
        assert ended is not None
        assert (ended.start, ended.end) == (old.start, end)
        assert read.open_runs(connection, "s") == (ctl, later)


def test_a_closed_run_takes_nothing_more(store: Store, study: Any) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    end_run(store, RunEnd(AT, "incomplete", "cut-off"), run_id=run.run_id, lease=lease)
    with pytest.raises(ValueError, match="is closed"):
        append_sample(store, study.sample(run, "a", 1.0), run_id=run.run_id, lease=lease)
    with pytest.raises(ValueError, match="is closed"):
        end_run(store, RunEnd(AT, "completed"), run_id=run.run_id, lease=lease)


def test_a_sample_belongs_to_its_run_and_panel(store: Store, study: Any) -> None:
    lease = study.register(store)
    old, ctl = study.claim(store, lease, study.start(), study.start(arm="ctl"))
    with pytest.raises(ValueError, match="is not a sample of run"):
        append_sample(store, study.sample(old, "a", 1.0), run_id=ctl.run_id, lease=lease)
    with pytest.raises(ValueError, match="has no item 'z'"):
        append_sample(store, study.sample(old, "z", 1.0), run_id=old.run_id, lease=lease)
    with pytest.raises(ValueError, match="has no run"):
        append_sample(store, study.sample(old, "a", 1.0), run_id=10_000, lease=lease)


def test_claiming_a_slot_twice_changes_nothing(store: Store, study: Any) -> None:
    lease = study.register(store)
    study.claim(store, lease, study.start(arm="ctl"))
    again = claim_slot(store, [study.start(), study.start(arm="ctl")], lease=lease, epoch=1)
    assert again == AlreadyClaimed("s", "ctl", study.day_1, 1, study.start().started_at)
    with store.read() as connection:
        assert [run.start.arm for run in read.runs(connection, "s")] == ["ctl"]


def test_claiming_for_an_unknown_arm_is_refused(store: Store, study: Any) -> None:
    lease = study.register(store)
    with pytest.raises(RowRefused, match=r"(?i)foreign key"):
        claim_slot(store, [study.start(arm="nosuch")], lease=lease, epoch=1)


def test_a_missed_slot_is_a_row_with_its_reason(store: Store, study: Any) -> None:
    lease = study.register(store)
    end = RunEnd(AT, "missed", "the host was asleep")
    starts = [study.start(), study.start(arm="ctl")]
    recorded = record_missed(store, starts, end=end, lease=lease, epoch=1)
    assert isinstance(recorded, tuple)
    with store.read() as connection:
        assert {run.end for run in read.runs(connection, "s")} == {end}
        assert read.open_runs(connection, "s") == ()


def test_a_grade_and_a_failure_are_read_back(store: Store, study: Any) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    graded = study.sample(
        run, "a", Grade(0.1 + 0.2, True, False, "two of three", "edit/1"),
        text="the answer " * 40, resolved_model="m-1-0613", response_id="r1", standing="reported",
        input_tokens=12, output_tokens=80, reasoning_tokens=70,
    )  # fmt: skip
    failed = study.sample(run, "b", Failure("truncated", "stop reason length"), text="", stop="length")
    silent = study.sample(run, "c", Failure("timeout", "after 60 s"))
    ids = append_samples(store, [graded, failed, silent], run_id=run.run_id, lease=lease)
    with store.read() as connection:
        found = samples.samples(connection, Span("s", "old", study.day_1, study.day_1))
        assert read.newest_sample_at(connection) == silent.ended_at
        assert read.response_seen(connection, "r1")
        assert not read.response_seen(connection, "r2")
    assert [each.sample_id for each in found] == list(ids)
    for sample, each in zip([graded, failed, silent], found, strict=True):
        assert (each.key, each.result, each.calls) == (sample.key, sample.result, 2)
        assert (each.asked_at, each.ended_at) == (sample.asked_at, sample.ended_at)
    assert found[0].text == "the answer " * 40
    assert (found[0].resolved_model, found[0].standing, found[0].stop) == ("m-1-0613", "reported", "stop")
    assert (found[0].input_tokens, found[0].output_tokens, found[0].reasoning_tokens) == (12, 80, 70)
    assert (found[1].text, found[1].stop, found[1].output_tokens) == ("", "length", None)
    assert (found[2].text, found[2].text_digest, found[2].stop) == (None, None, None)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, -0.001, 1.001])
def test_a_score_outside_its_range_is_refused(store: Store, study: Any, score: float) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    with pytest.raises(RowRefused):
        append_sample(store, study.sample(run, "a", score), run_id=run.run_id, lease=lease)
    with store.read() as connection:
        assert connection.scalar(select(func.count()).select_from(schema.sample)) == 0


def test_a_row_that_is_both_or_neither_is_refused(store: Store, study: Any) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    row = {"run_id": run.run_id, "item_id": "a", "replicate": 0, "asked_at": AT, "ended_at": AT, "calls": 1}
    grade = {"score": 1.0, "answered": True, "passed": True, "grader": "", "grade_detail": ""}
    failure = {"failure_kind": "empty", "failure_detail": ""}
    for extra in ({}, grade | failure, {"failure_kind": "nosuch"}, {"score": 1.0}, failure | {"output_tokens": -1}):
        with pytest.raises(RowRefused), store.write() as connection:
            connection.execute(insert(schema.sample).values(row | extra))
    for item_id, extra in (("a", grade), ("b", failure)):
        with store.write() as connection:
            connection.execute(insert(schema.sample).values(row | extra | {"item_id": item_id}))


def test_a_refused_row_is_not_quoted(store: Store, study: Any) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    secret = Grade(2.0, True, True, "the secret answer")
    with pytest.raises(RowRefused) as refusal:
        append_sample(store, study.sample(run, "a", secret, text="the secret answer"), run_id=run.run_id, lease=lease)
    assert "ck_sample_score" in str(refusal.value)
    assert "secret" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__


def test_a_sample_is_stored_once(store: Store, study: Any) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    append_sample(store, study.sample(run, "a", 1.0), run_id=run.run_id, lease=lease)
    both = [study.sample(run, "b", 1.0), study.sample(run, "a", 0.0)]
    with pytest.raises(RowRefused):
        append_samples(store, both, run_id=run.run_id, lease=lease)
    with store.read() as connection:
        found = samples.samples(connection, Span("s", "old", study.day_1, study.day_1))
    assert [(each.key.item_id, each.result.score) for each in found if isinstance(each.result, Grade)] == [("a", 1.0)]


def test_verdicts_supersede_and_alarms_follow(store: Store, study: Any) -> None:
    lease = study.register(store)
    first = append_verdict(store, verdict(), lease=lease)
    later = append_verdict(store, verdict(window_index=2, kind="change", direction="down"), lease=lease)
    with pytest.raises(RowRefused):
        append_verdict(store, verdict(), lease=lease)
    redone = append_verdict(store, verdict(supersedes=first, reasons=("quarantine", "b")), lease=lease)
    with pytest.raises(RowRefused):
        append_verdict(store, verdict(supersedes=first), lease=lease)
    warming = Alarm("s", "warming_up", AT, None)
    regression = Alarm("s", "regression", AT + timedelta(days=1), later)
    for alarm in (warming, regression):
        append_alarm(store, alarm, lease=lease)
    with store.read() as connection:
        assert [each.verdict_id for each in read.verdicts(connection, "s")] == [redone, later]
        assert [each.verdict_id for each in read.verdicts(connection, "s", superseded=True)] == [first, redone, later]
        assert read.verdicts(connection, "s")[0].verdict == verdict(supersedes=first, reasons=("quarantine", "b"))
        latest = read.latest_verdict(connection, "s")
        assert latest is not None
        assert latest.verdict_id == later
        assert read.alarms(connection, "s") == (warming, regression)


def test_no_verdict_yet(store: Store, study: Any) -> None:
    study.register(store)
    with store.read() as connection:
        assert read.latest_verdict(connection, "s") is None
        assert read.newest_sample_at(connection) is None
        assert read.latest_run(connection, "s", arm="old") is None


@pytest.mark.parametrize(
    "wrong",
    [{"clauses": {"delta": math.nan}}, {"clauses": {"delta": math.inf}}, {"decided_at": AT.replace(tzinfo=None)}],
)
def test_a_verdict_without_a_canonical_form_is_refused(store: Store, study: Any, wrong: dict[str, Any]) -> None:
    lease = study.register(store)
    with pytest.raises(ValueError, match=r"no canonical JSON form|no time without an offset"):
        append_verdict(store, verdict(**wrong), lease=lease)
    with store.read() as connection:
        assert read.verdicts(connection, "s") == ()


def test_early_warnings_are_read_back_by_day(store: Store, study: Any) -> None:
    lease = study.register(store)
    days = [
        EarlyWarningDay("s", "score", 1, date(2030, 1, day), day, 1.5e300 if day == 2 else 0.3, 300.0, day == 2, onset)
        for day, onset in ((2, date(2030, 1, 1)), (1, None))
    ]
    append_early_warning(store, days, lease=lease)
    with store.read() as connection:
        assert read.early_warnings(connection, "s", stream="score") == (days[1], days[0])
        assert read.early_warnings(connection, "s", stream="tokens") == ()


@pytest.mark.parametrize("capital", [math.nan, math.inf, -1.0])
def test_a_capital_that_is_no_number_is_refused(store: Store, study: Any, capital: float) -> None:
    lease = study.register(store)
    day = EarlyWarningDay("s", "score", 1, date(2030, 1, 1), 1, capital, 300.0, False, None)
    with pytest.raises(RowRefused):
        append_early_warning(store, [day], lease=lease)


def test_a_note_names_exactly_one_run_or_sample(store: Store, study: Any) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    sample_id = append_sample(store, study.sample(run, "a", 1.0), run_id=run.run_id, lease=lease)
    wrong = ({}, {"run_id": run.run_id, "sample_id": sample_id}, {"run_id": 10_000})
    for target in wrong:
        with pytest.raises(RowRefused):
            append_validity(store, Invalid("operator", "typo", AT, **target))
    assert append_validity(store, Invalid("operator", "typo", AT, sample_id=sample_id)) >= 1


def test_a_time_with_an_offset_is_the_same_instant(store: Store, study: Any) -> None:
    lease = study.register(store)
    east, west = timezone(timedelta(hours=5, minutes=45)), timezone(-timedelta(hours=11))
    told = datetime(2030, 1, 1, 0, 30, 0, 1, tzinfo=east)
    append_alarm(store, Alarm("s", "ok", told, None), lease=lease)
    append_alarm(store, Alarm("s", "ok", told.astimezone(west), None), lease=lease)
    with store.read() as connection:
        found = [alarm.since for alarm in read.alarms(connection, "s")]
    assert found == [told, told]
    assert all(since.utcoffset() == timedelta(0) for since in found)


def fill_every_table(path: str) -> None:
    """Put a meaningless row into each table of a SQLite store but that of blocks, past every rule."""
    made_up = {"TEXT": "'x'", "INTEGER": "1", "REAL": "0.5", "BLOB": "x''"}
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for table in set(schema.APPEND_ONLY) - {text_block}:
        types = [row[2] for row in connection.execute(f"PRAGMA table_info({table.name})")]
        connection.execute(f"INSERT INTO {table.name} VALUES ({', '.join(made_up[each] for each in types)})")
    connection.commit()
    connection.close()


def test_rows_never_change_and_never_go(store: Store, store_url: str) -> None:
    assert set(schema.APPEND_ONLY) | {schema.lease, *schema.DERIVED} == set(schema.metadata.sorted_tables)
    verbs = ["UPDATE {0} SET {1} = {1}", "DELETE FROM {0}"]
    if store_url.startswith("sqlite"):
        # Its triggers fire once a row, those of PostgreSQL once a statement.
        fill_every_table(store_url.removeprefix("sqlite:///"))
    else:
        verbs.append("TRUNCATE {0} CASCADE")
    # A block of texts, and a text while a block of its run is there, may go; `test_store_texts` has both.
    for table in set(schema.APPEND_ONLY) - {text_block}:
        for verb in verbs:
            if (store_url.startswith("postgresql"), table, verb) == (True, reply_text, verbs[1]):
                continue
            with pytest.raises(RowRefused, match="is append-only"), store.write() as connection:
                connection.execute(text(verb.format(table.name, next(iter(table.c)).name)))
