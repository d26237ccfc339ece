"""The ledger covers every table that a verdict or a report rests upon: a row that changes, goes or comes is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Table, create_engine, delete, func, insert, select, text, update

from canaryd.records import Alarm, EarlyWarningDay, Grade, RunEnd, SampleKey, Verdict
from canaryd.store import harness, ledger, schema, sentinels
from canaryd.store import schema_contract as contract
from canaryd.store.acknowledgements import Acknowledgement, add_acknowledgement
from canaryd.store.engine import Store, parse_url
from canaryd.store.events import Event, add_events
from canaryd.store.evidence import COVERED, LEFT_OUT
from canaryd.store.judges import keep_judge_usage
from canaryd.store.regrades import Difference, Regrade, append_regrade
from canaryd.store.schema_alarms import acknowledgement
from canaryd.store.schema_judges import judge_reading, judge_usage, judged_item
from canaryd.store.schema_regrades import regrade, regrade_difference
from canaryd.store.schema_studies import registration_document
from canaryd.store.studies import RegistrationDocument, keep_document
from canaryd.store.write import append_alarm, append_early_warning, append_samples, append_verdict, end_run

AT = datetime(2030, 1, 5, tzinfo=UTC)
DAY = date(2030, 1, 1)
OTHER_DAY = date(2031, 1, 1)
SPENT = harness.Spending(4, 100, 20)
RUN, OTHER_RUN = "old 2030-01-01 attempt 1", "ctl 2030-01-01 attempt 1"

#: Of each table: the name of its row, a change of it, and what a row differs in that was never stored.
FORGERIES: dict[Table, tuple[str, dict[str, Any], dict[str, Any] | None, str]] = {
    contract.run_target: (f"target of run {RUN}", {"recorded": {"model": "x"}}, {}, f"target of run {OTHER_RUN}"),
    contract.run_surroundings: (
        f"surroundings of run {RUN}", {"recorded": {"python": "x"}}, {}, f"surroundings of run {OTHER_RUN}",
    ),
    contract.run_usage: (f"usage of run {RUN}", {"calls": 1}, {}, f"usage of run {OTHER_RUN}"),
    contract.run_duration: (f"duration of run {RUN}", {"seconds": 1.0}, {}, f"duration of run {OTHER_RUN}"),
    contract.run_report: (f"report of run {RUN}", {"last": {"a": 2}}, {}, f"report of run {OTHER_RUN}"),
    judge_usage: (f"judge's usage of run {RUN}", {"output_tokens": 1}, {}, f"judge's usage of run {OTHER_RUN}"),
    contract.event: (
        "event model_roll of old 2030-01-01", {"detail": {"to": "x"}},
        {"event_id": 99, "arm": "ctl"}, "event model_roll of ctl 2030-01-01",
    ),
    contract.sentinel_baseline: (
        "burst of sentinel d", {"total": 3.0}, {"item_id": "c"}, "burst of sentinel c",
    ),
    contract.sentinel_day: (
        "judgement of sentinel d of 2030-01-01", {"state": "moved"},
        {"slot_date": OTHER_DAY}, "judgement of sentinel d of 2031-01-01",
    ),
    contract.sentinel_usage: (
        "usage of a burst of old 2030-01-01", {"calls": 1},
        {"usage_id": 99}, "usage of a burst of old 2030-01-01",
    ),
    schema.alarm: (
        "alarm since 2030-01-05T00:00:00+00:00", {"verdict_id": None},
        {"alarm_id": 99, "since": AT + timedelta(days=1)}, "alarm since 2030-01-06T00:00:00+00:00",
    ),
    schema.early_warning: (
        "early warning score of 2030-01-01", {"capital": 9.0},
        {"slot_date": OTHER_DAY}, "early warning score of 2031-01-01",
    ),
    acknowledgement: (
        "acknowledgement of regression at 2030-01-05T00:00:00+00:00", {"until": AT + timedelta(days=9)},
        {"acknowledgement_id": 99, "state": "improvement"},
        "acknowledgement of improvement at 2030-01-05T00:00:00+00:00",
    ),
    regrade: (
        "re-grading of 2030-01-05T00:00:00+00:00", {"expired": 1},
        {"regrade_id": 99}, "re-grading of 2030-01-05T00:00:00+00:00",
    ),
    regrade_difference: (
        f"re-graded sample a/0 of {RUN}", {"score": 0.5},
        {"sample_id": "b"}, f"re-graded sample b/0 of {RUN}",
    ),
    registration_document: ("registration document", {"content": b"other"}, None, ""),
}  # fmt: skip


@pytest.fixture
def filled(store: Store, study: Any) -> Store:
    """Return a store with a closed run of each arm and one row in every table that is covered by name."""
    lease = study.register(store)
    (run, _) = study.claim(store, lease, study.start(), study.start(arm="ctl"))
    content = [study.sample(run, item, 1.0) for item in "ab"]
    (first, _) = append_samples(store, content, run_id=run.run_id, lease=lease)
    harness.keep_target(store, {"model": "m"}, run_id=run.run_id, lease=lease)
    harness.keep_surroundings(store, {"python": "3"}, run_id=run.run_id, lease=lease)
    harness.keep_usage(store, SPENT, run_id=run.run_id, lease=lease)
    harness.keep_duration(store, 812.5, run_id=run.run_id, lease=lease)
    harness.keep_report(store, first={"a": 1}, last={"a": 1}, run_id=run.run_id, lease=lease)
    keep_judge_usage(store, SPENT, run_id=run.run_id, lease=lease)
    add_events(store, [Event("s", "old", DAY, "model_roll", {"to": "m-3"}, AT)], lease=lease)
    end_run(store, RunEnd(AT, "completed"), run_id=run.run_id, lease=lease)
    note = sentinels.BurstNote("s", DAY, 4, {"old": "h"}, AT)
    sentinels.add_bursts(store, [sentinels.Burst("s", "d", 4, 4.0, 4.0, AT)], note=note, lease=lease)
    sentinels.charge_burst(store, SPENT, series="s", arm="old", slot_date=DAY, lease=lease)
    sentinels.add_days(store, [sentinels.SentinelDay("s", DAY, "d", "ok", 4, 1.0, 1.0, 0.5, 1.0)], lease=lease)
    append_early_warning(store, [EarlyWarningDay("s", "score", 1, DAY, 1, 1.0, 20.0, False, None)], lease=lease)
    verdict = Verdict("s", 1, 1, "no_change_detected", None, None, (), AT, "p", "r", {})
    append_alarm(store, Alarm("s", "ok", AT, append_verdict(store, verdict, lease=lease)), lease=lease)
    add_acknowledgement(store, Acknowledgement("s", "regression", AT, AT + timedelta(days=1), "known"))
    key = SampleKey("s", "old", DAY, "a", 0)
    old, new = (Grade(score, True, bool(score), detail="", grader="exact@1") for score in (1.0, 0.0))
    append_regrade(store, Regrade("s", AT, None, ("exact@1",), 3, 0, 0, (Difference(first, key, old=old, new=new),)))
    keep_document(store, "s", document=RegistrationDocument(b"# s", "sha256:x", None, AT))
    return store


@contextmanager
def forging(url: str) -> Iterator[Connection]:
    """Yield a connection on which no trigger and no foreign key is in the way."""
    engine = create_engine(parse_url(url))
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            for name in connection.execute(text(triggers)).scalars().all():
                connection.execute(text(f"DROP TRIGGER {name}"))
        else:
            connection.execute(text("SET session_replication_role = replica"))
        connection.commit()
        yield connection
    engine.dispose()


def named(connection: Connection) -> str:
    """Return what the ledger finds, and undo the forgery."""
    found = ledger.first_difference(connection, "s")
    connection.rollback()
    return str(found)


def test_every_table_is_covered_or_says_why_not() -> None:
    by_number = {
        *(schema.series, schema.arm, schema.panel, schema.panel_item, schema.run_start, schema.run_end, schema.sample),
        *(schema.validity, schema.verdict, contract.deviation, contract.epoch, judged_item, judge_reading),
    }
    assert by_number | set(COVERED) | set(LEFT_OUT) == set(schema.APPEND_ONLY)
    assert set(FORGERIES) == set(COVERED)


def test_a_row_that_changed_went_or_came_is_named(filled: Store, store_url: str) -> None:
    with forging(store_url) as connection:
        assert named(connection) == "None"
        runs = dict(connection.execute(select(schema.run_start.c.arm, schema.run_start.c.run_id)).all())
        samples = dict(connection.execute(select(schema.sample.c.item_id, schema.sample.c.sample_id)).all())
        for table, (row, change, addition, added) in FORGERIES.items():
            assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 1, table.name
            connection.execute(update(table).values(change))
            assert named(connection).startswith(f"{row} differs (ledger entry "), table.name
            connection.execute(delete(table))
            assert named(connection).startswith(f"{row} is missing (ledger entry "), table.name
            if addition is None:
                continue
            stored = dict(connection.execute(select(table)).mappings().one())
            changed = {key: samples.get(value, value) for key, value in (addition or {"run_id": runs["ctl"]}).items()}
            connection.execute(insert(table).values(stored | changed))
            assert named(connection) == f"{added} was added (outside the ledger)", table.name


def test_rows_of_an_older_canaryd_are_adopted_once(filled: Store, store_url: str) -> None:
    with forging(store_url) as connection:
        connection.execute(delete(schema.ledger).where(schema.ledger.c.position > 1))
        ledger.adopt(connection, "s")
        head = ledger.head(connection, "s")
        ledger.adopt(connection, "s")
        assert ledger.head(connection, "s") == head
        assert named(connection) == f"start of run {RUN} was added (outside the ledger)"


def test_many_rows_are_covered_in_several_entries(store: Store, study: Any) -> None:
    lease = study.register(store)
    first = EarlyWarningDay("s", "score", 1, DAY, 1, 1.0, 20.0, False, None)
    days = [replace(first, slot_date=DAY + timedelta(days=n)) for n in range(1001)]
    append_early_warning(store, days, lease=lease)
    with store.read() as connection:
        assert ledger.first_difference(connection, "s") is None
        found = ledger.head(connection, "s")
    assert found is not None
    assert found.entries == 1 + 2
