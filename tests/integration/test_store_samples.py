"""Which sample counts, and what is summed over those that do, on both databases."""

from __future__ import annotations

import itertools
import math
import re
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from canaryd.records import HARNESS_FAILURES, OUTCOME_FAILURES, Failure, Grade, Run, RunEnd, SampleKey
from canaryd.store import read, samples
from canaryd.store.engine import Store
from canaryd.store.lease import Lease
from canaryd.store.rows import Cell, Invalid, Span, SpanCounts
from canaryd.store.write import append_sample, append_samples, append_validity, end_run

AT = datetime(2030, 1, 2, 4, tzinfo=UTC)
DAY_1 = date(2030, 1, 1)
DAY_2 = date(2030, 1, 2)
SPAN = Span("s", "old", DAY_1, DAY_2)


def attempts(store: Store, study: Any, lease: Lease, *contents: dict[str, Grade | Failure | float]) -> list[Run]:
    """Store one attempt after the other of day 1, each {item: result}."""
    made = []
    for attempt, content in enumerate(contents, start=1):
        (run,) = study.claim(store, lease, study.start(attempt=attempt))
        append_samples(
            store, [study.sample(run, item, result) for item, result in content.items()], run_id=run.run_id, lease=lease
        )
        end_run(store, RunEnd(AT, "incomplete"), run_id=run.run_id, lease=lease)
        made.append(run)
    return made


def effective(store: Store, **options: Any) -> dict[str, tuple[int, Any]]:
    with store.read() as connection:
        found = samples.samples(connection, SPAN, **options)
    return {each.key.item_id: (each.attempt, getattr(each.result, "score", None)) for each in found}


def test_a_failed_sample_is_superseded_by_the_next_attempt(store: Store, study: Any) -> None:
    lease = study.register(store)
    attempts(
        store, study, lease,
        {"a": 1.0, "b": Failure("timeout"), "c": Failure("timeout"), "d": Failure("refusal")},
        {"b": 0.5, "c": Failure("overloaded")},
    )  # fmt: skip
    assert effective(store) == {"a": (1, 1.0), "b": (2, 0.5), "c": (2, None), "d": (1, None)}
    with store.read() as connection:
        final = samples.final_samples(connection, "s", arm="old", slot_date=DAY_1)
        elsewhere = samples.final_samples(connection, "s", arm="ctl", slot_date=DAY_1)
    assert final == {SampleKey("s", "old", DAY_1, item, 0) for item in "abd"}
    assert elsewhere == frozenset()


def test_a_final_sample_stays_when_a_later_attempt_fails(store: Store, study: Any) -> None:
    lease = study.register(store)
    attempts(
        store, study, lease,
        {"a": 1.0, "b": Failure("empty"), "c": 0.25},
        {"a": Failure("timeout"), "b": Failure("internal"), "c": 0.75},
    )  # fmt: skip
    assert effective(store) == {"a": (1, 1.0), "b": (1, None), "c": (2, 0.75)}


@pytest.mark.parametrize("kind", sorted(HARNESS_FAILURES | OUTCOME_FAILURES))
def test_only_outcome_failures_are_final(store: Store, study: Any, kind: str) -> None:
    lease = study.register(store)
    attempts(store, study, lease, {"a": Failure(kind)})
    with store.read() as connection:
        final = samples.final_samples(connection, "s", arm="old", slot_date=DAY_1)
        counts = samples.span_counts(connection, SPAN)
    assert bool(final) == (kind in OUTCOME_FAILURES)
    assert counts.outcome_failures == ({kind: 1} if kind in OUTCOME_FAILURES else {})
    assert counts.harness_failures == ({} if kind in OUTCOME_FAILURES else {kind: 1})
    (run,) = study.claim(store, lease, study.start(attempt=2))
    append_sample(store, study.sample(run, "a", Failure("timeout")), run_id=run.run_id, lease=lease)
    assert effective(store)["a"][0] == (1 if kind in OUTCOME_FAILURES else 2)


def test_invalid_runs_and_samples_are_left_out_until_asked_for(store: Store, study: Any) -> None:
    lease = study.register(store)
    (first, _) = attempts(store, study, lease, {"a": 1.0, "b": 1.0, "c": Failure("timeout")}, {"c": 1.0})
    with store.read() as connection:
        by_item = {each.key.item_id: each for each in samples.samples(connection, SPAN)}
    append_validity(store, Invalid("operator", "wrong key", AT, sample_id=by_item["b"].sample_id))
    assert set(effective(store)) == {"a", "c"}
    append_validity(store, Invalid("zero_outputs", "", AT, run_id=first.run_id))
    assert effective(store) == {"c": (2, 1.0)}
    with store.read() as connection:
        everything = samples.samples(connection, SPAN, include_invalid=True)
        assert samples.span_counts(connection, SPAN).attempted == 1
        assert samples.span_counts(connection, SPAN, include_invalid=True).attempted == 3
        assert samples.tally(connection, SPAN).samples == 1
        assert samples.tally(connection, SPAN, include_invalid=True).samples == 3
        assert len(samples.item_day_cells(connection, SPAN)) == 1
        assert len(samples.item_day_cells(connection, SPAN, include_invalid=True)) == 3
    assert {each.key.item_id: each.invalid_reason for each in everything} == {
        "a": "zero_outputs",
        "b": "zero_outputs",
        "c": None,
    }


def test_cells_count_and_tally(store: Store, study: Any) -> None:
    lease = study.register(store)
    old, ctl, next_day = study.claim(store, lease, study.start(), study.start(arm="ctl"), study.start(2))
    content = [
        study.sample(old, "a", 1.0, replicate=0, output_tokens=10, input_tokens=5),
        study.sample(old, "a", 0.5, replicate=1, output_tokens=30, reasoning_tokens=20),
        study.sample(old, "b", 0.25),
        study.sample(old, "c", Failure("truncated"), stop="length", output_tokens=4096),
        study.sample(old, "d", 0.0, output_tokens=7),
    ]
    append_samples(store, content, run_id=old.run_id, lease=lease)
    append_sample(store, study.sample(ctl, "a", 0.0, output_tokens=99), run_id=ctl.run_id, lease=lease)
    append_samples(
        store,
        [study.sample(next_day, "a", 0.0, output_tokens=0), study.sample(next_day, "b", Failure("timeout"))],
        run_id=next_day.run_id,
        lease=lease,
    )
    with store.read() as connection:
        assert samples.item_day_cells(connection, SPAN) == (
            Cell("a", DAY_1, 2, 1.5, 1.25),
            Cell("a", DAY_2, 1, 0.0, 0.0),
            Cell("b", DAY_1, 1, 0.25, 0.0625),
        )
        assert samples.item_day_cells(connection, SPAN, value="output_tokens") == (Cell("a", DAY_1, 2, 40.0, 1000.0),)
        (logs,) = samples.item_day_cells(connection, SPAN, value="log_output_tokens")
        assert logs.total == pytest.approx(math.log(10) + math.log(30), rel=1e-15)
        assert logs.total_sq == pytest.approx(math.log(10) ** 2 + math.log(30) ** 2, rel=1e-15)
        assert [each.item_id for each in samples.item_day_cells(connection, SPAN, sentinels="only")] == ["d"]
        assert len(samples.item_day_cells(connection, SPAN, sentinels="include")) == 4
        assert samples.span_counts(connection, SPAN) == SpanCounts(
            scored=4,
            harness_failures={"timeout": 1},
            outcome_failures={"truncated": 1},
            scored_items={DAY_1: 2, DAY_2: 1},
            fingerprints=frozenset({"sha256:harness"}),
        )
        tally = samples.tally(connection, Span("s", "old", DAY_1, DAY_1))
        nothing = samples.tally(connection, Span("s", "old", date(2031, 1, 1), date(2031, 1, 1)))
    assert (tally.samples, tally.scored, tally.score_total, tally.passed) == (5, 4, 1.75, 2)
    assert (tally.input_tokens, tally.output_tokens, tally.reasoning_tokens) == (5, 4143, 20)
    assert tally.failures == {"truncated": 1}
    assert (nothing.samples, nothing.score_total, nothing.output_tokens, nothing.failures) == (0, 0, 0, {})


def test_a_span_reads_only_its_own_runs(store: Store, study: Any) -> None:
    """The condition on series, arm and date reaches the tables below the view, so a window's cost has no history."""
    query = (
        "SELECT count(*) FROM v_effective_sample WHERE series = 's' AND arm = 'old' "
        "AND slot_date BETWEEN '2030-01-01' AND '2030-01-10'"
    )
    explain = "EXPLAIN QUERY PLAN " if store.name.startswith("sqlite") else "EXPLAIN "
    with store.write() as connection:
        if store.name.startswith("postgresql"):
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        plan = "\n".join(str(row[-1]) for row in connection.execute(text(explain + query)))
    assert re.search(r"uq_run_start\w+ on run_start|SEARCH run_start USING (COVERING )?INDEX", plan), plan
    assert re.search(r"uq_sample_run_id\w+ on sample|SEARCH sample USING (COVERING )?INDEX", plan), plan
    assert not re.search("Seq Scan on (sample|run_start)|SCAN (sample|run_start)", plan), plan


ANYTHING = st.text(st.characters(), max_size=300) | st.sampled_from(
    ["\x00", "\ud800", "\udfff\ud800", "😀", "\\u0000", "\\", "a\r\n\u2028", "x" * 5000 + "\ud83d", "\ufeff", "e\u0301"]
)


def test_any_text_is_read_back_identically(store: Store, study: Any) -> None:
    lease = study.register(store)
    days = itertools.count(1)

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(said=ANYTHING, detail=ANYTHING, model=ANYTHING, response_id=ANYTHING)
    def check(said: str, detail: str, model: str, response_id: str) -> None:
        (run,) = study.claim(store, lease, study.start(next(days)))
        grade = Grade(1.0, True, True, detail, "exact/1")
        sample = study.sample(run, "a", grade, text=said, resolved_model=model, response_id=response_id)
        append_sample(store, sample, run_id=run.run_id, lease=lease)
        day = run.start.slot_date
        with store.read() as connection:
            (found,) = samples.samples(connection, Span("s", "old", day, day))
            assert read.response_seen(connection, response_id)
        assert (found.text, found.resolved_model, found.response_id) == (said, model, response_id)
        assert found.result == grade

    check()
