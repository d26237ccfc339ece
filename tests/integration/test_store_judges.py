"""Judged items on both databases: what enters the sums, and what a reading of the anchors comes back as."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from canaryd.judging import Reading
from canaryd.records import JUDGE_GRADER, Failure, GraderSpec, RunEnd
from canaryd.store import judges, ledger, observed, samples
from canaryd.store.engine import Store, open_store
from canaryd.store.harness import Spending
from canaryd.store.lease import acquire_lease
from canaryd.store.migrate import upgrade
from canaryd.store.rows import Span
from canaryd.store.transfer import export_jsonl, import_jsonl
from canaryd.store.write import append_samples, end_run, register_series

DAY_1 = date(2030, 1, 1)
SPAN = Span("s", "old", DAY_1, DAY_1)
READING = Reading(DAY_1, 1, "p:m:1", {"x": "correct"}, {"x": "correct", "y": "incorrect"}, ("m-1",))
SPENT = Spending(5, 70, 30)


def measured(store: Store, study: Any, *, primary: bool) -> None:
    """Measure a day of a series whose item b is judged, c failed and d is a sentinel."""
    plan = study.plan()
    items = tuple(replace(i, grader=GraderSpec(JUDGE_GRADER)) if i.item_id == "b" else i for i in plan.items)
    register_series(store, replace(plan, items=items, judged_measured=primary))
    lease = acquire_lease(store, "s", holder=study.holder(), now=study.now, policy=study.policy)
    (run,) = study.claim(store, lease, study.start())
    judges.keep_reading(store, READING, run_id=run.run_id, lease=lease)
    content = {"a": 1.0, "b": 0.5, "c": Failure("grader_error", "the judge: empty, 2 times"), "d": 1.0}
    found = [study.sample(run, item, result) for item, result in content.items()]
    append_samples(store, found, run_id=run.run_id, lease=lease)
    judges.keep_judge_usage(store, SPENT, run_id=run.run_id, lease=lease)
    end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lease)


@pytest.mark.parametrize("primary", [False, True])
def test_a_judged_item_enters_the_sums_only_where_that_was_registered(store: Store, study: Any, primary: bool) -> None:
    measured(store, study, primary=primary)
    with store.read() as connection:
        for include_invalid in (False, True):  # from day totals, and from the raw rows
            cells = samples.item_day_cells(connection, SPAN, include_invalid=include_invalid)
            assert [cell.item_id for cell in cells] == (["a", "b"] if primary else ["a"])
            counts = samples.span_counts(connection, SPAN, include_invalid=include_invalid)
            assert (counts.scored, counts.harness_failures) == (2 if primary else 1, {"grader_error": 1})
        beside = samples.item_day_cells(connection, SPAN, sentinels="judged")
        assert [cell.item_id for cell in beside] == ([] if primary else ["b"])
        assert [cell.item_id for cell in samples.item_day_cells(connection, SPAN, sentinels="only")] == ["d"]
        assert judges.judged_items(connection, "s") == {"b": primary}
        assert observed.outcome_failures(connection, SPAN) == ()
        assert ledger.first_difference(connection, "s") is None


def test_a_reading_and_what_it_cost_survive_an_export(store: Store, study: Any, tmp_path: Any) -> None:
    measured(store, study, primary=False)
    with store.read() as connection:
        lines = list(export_jsonl(connection, "s", with_texts=True))
    url = f"sqlite:///{tmp_path / 'other.db'}"
    upgrade(url)
    with open_store(url) as other:
        import_jsonl(other, lines, now=study.now)
        for each in (store, other):
            with each.read() as connection:
                assert judges.readings(connection, "s") == (READING,)
                assert judges.readings(connection, "s", last=date(2029, 12, 31)) == ()
                spent = judges.judge_spending(connection, "s", first=DAY_1, last=DAY_1)
                assert spent == {(JUDGE_GRADER, DAY_1): SPENT}
                assert ledger.first_difference(connection, "s") is None
