"""The totals of closed days are what the raw rows add up to, whatever happens to the day, and nothing rests on them."""

from __future__ import annotations

import zlib
from collections import Counter
from datetime import UTC, date, datetime
from typing import Any

import pytest
from sqlalchemy import delete, func, select, update

from canaryd.records import Failure, RunEnd
from canaryd.store import effective, run_totals, samples, schema
from canaryd.store.engine import Store
from canaryd.store.rows import Invalid, Span
from canaryd.store.totals import keep_missing, wrong_totals
from canaryd.store.write import append_samples, append_validity, end_run, record_missed

AT = datetime(2030, 1, 5, tzinfo=UTC)
SPAN = Span("s", "old", date(2030, 1, 1), date(2030, 1, 6))


def require_equal(store: Store) -> None:
    with store.read() as connection:
        for value in ("score", "output_tokens", "log_output_tokens"):
            summed = samples.item_day_cells(connection, SPAN, value=value)
            raw = effective.item_day_cells(connection, SPAN, value=value)
            assert [(cell.item_id, cell.slot_date, cell.n) for cell in summed] == [
                (cell.item_id, cell.slot_date, cell.n) for cell in raw
            ]
            for left, right in zip(summed, raw, strict=True):
                assert (left.total, left.total_sq) == pytest.approx((right.total, right.total_sq))
        assert samples.span_counts(connection, SPAN) == effective.span_counts(connection, SPAN)
        assert list(wrong_totals(connection, "s")) == []
        assert list(run_totals.wrong_totals(connection, "s")) == []


def kept_days(store: Store) -> list[int]:
    with store.read() as connection:
        row = schema.day_total.c
        return [
            day.day
            for day in connection.scalars(
                select(row.slot_date).where(row.arm == "old", row.value == "counts").order_by(row.slot_date)
            )
        ]


def measure(store: Store, study: Any, lease: Any, *, day: int, attempt: int = 1, close: bool = True) -> tuple[int, ...]:
    (run,) = study.claim(store, lease, study.start(day, attempt=attempt))
    content = [
        *(study.sample(run, "a", 0.1 * (n + 1), replicate=n, output_tokens=7 + n) for n in range(3)),
        study.sample(run, "b", 1.0 if attempt > 1 else Failure("timeout")),
        study.sample(run, "c", Failure("refusal"), text="no", stop="refusal"),
        study.sample(run, "d", 1.0, output_tokens=3),
    ]
    ids = append_samples(store, content, run_id=run.run_id, lease=lease)
    if close:
        end_run(store, RunEnd(AT, "completed" if attempt > 1 else "incomplete"), run_id=run.run_id, lease=lease)
    return ids


def test_totals_follow_what_happens_to_a_day(store: Store, study: Any) -> None:
    lease = study.register(store)
    require_equal(store)
    ids = measure(store, study, lease, day=1)
    measure(store, study, lease, day=2)
    record_missed(store, [study.start(3)], end=RunEnd(AT, "missed", "asleep"), lease=lease, epoch=1)
    assert kept_days(store) == [1, 2, 3]
    require_equal(store)
    measure(store, study, lease, day=2, attempt=2, close=False)
    measure(store, study, lease, day=5, close=False)
    assert kept_days(store) == [1, 3]
    require_equal(store)
    with store.read() as connection:
        (open_run,) = connection.scalars(select(schema.run_start.c.run_id).where(schema.run_start.c.attempt == 2))
    end_run(store, RunEnd(AT, "completed"), run_id=open_run, lease=lease)
    assert kept_days(store) == [1, 2, 3]
    require_equal(store)
    append_validity(store, Invalid("operator", "", AT, sample_id=ids[0]))
    append_validity(store, Invalid("operator", "", AT, run_id=open_run))
    assert kept_days(store) == [1, 2, 3]
    require_equal(store)


def test_totals_are_made_again_where_they_are_missing(store: Store, study: Any) -> None:
    lease = study.register(store)
    measure(store, study, lease, day=1)
    measure(store, study, lease, day=2)
    measure(store, study, lease, day=4, close=False)
    with store.write() as connection:
        connection.execute(delete(schema.day_total))
    require_equal(store)
    with store.write() as connection:
        keep_missing(connection)
    assert kept_days(store) == [1, 2]
    require_equal(store)


@pytest.mark.parametrize("forged", [b"", zlib.compress(b'{"scored": 7}')])
def test_totals_that_are_wrong_are_named(store: Store, study: Any, forged: bytes) -> None:
    lease = study.register(store)
    measure(store, study, lease, day=1)
    with store.write() as connection:
        connection.execute(update(schema.day_total).values(content=forged))
    with store.read() as connection:
        assert list(wrong_totals(connection, "s")) == ["day total of old 2030-01-01"]


def test_sums_of_an_arm_are_those_of_its_samples_whether_runs_are_closed_or_not(store: Store, study: Any) -> None:
    lease = study.register(store)
    with store.read() as connection:
        assert run_totals.arm_totals(connection) == {}
    measure(store, study, lease, day=1)
    record_missed(store, [study.start(2)], end=RunEnd(AT, "missed", "asleep"), lease=lease, epoch=1)
    measure(store, study, lease, day=3, close=False)
    wanted = run_totals.ArmTotal(
        samples=12,
        tokens=Counter(input_tokens=0, output_tokens=2 * (7 + 8 + 9 + 3), reasoning_tokens=0),
        failures=Counter(timeout=2, refusal=2),
    )
    for again in (lambda connection: connection.execute(delete(schema.run_total)), run_totals.keep_missing):
        with store.read() as connection:
            assert run_totals.arm_totals(connection) == {("s", "old"): wanted}
        with store.write() as connection:
            again(connection)
    with store.read() as connection:
        assert connection.scalar(select(func.count()).select_from(schema.run_total)) == 2
        assert run_totals.arm_totals(connection) == {("s", "old"): wanted}


def test_a_run_total_that_is_wrong_is_named(store: Store, study: Any) -> None:
    lease = study.register(store)
    measure(store, study, lease, day=1)
    with store.write() as connection:
        connection.execute(update(schema.run_total).values(failures={"timeout": 2}))
    with store.read() as connection:
        assert list(run_totals.wrong_totals(connection, "s")) == ["total of run old 2030-01-01"]
