"""Outcome failures: tested on their own, and what counting them as wrong would give."""

import json
from datetime import date, timedelta

import pytest

from canaryd.records import OUTCOME_FAILURES
from canaryd.stats.cells import Cells
from canaryd.stats.outcomes import OutcomeCounts, counted_as_wrong, outcome_tests
from canaryd.stats.paired import paired_delta
from canaryd.stats.params import EstimateParams


def test_a_panel_that_starts_to_refuse_is_noticed():
    outcomes = outcome_tests(OutcomeCounts(1560, {"refusal": 2}), OutcomeCounts(780, {"refusal": 47}), alpha=0.01)
    assert outcomes.state == "moved"
    assert outcomes.threshold == pytest.approx(0.01 / len(OUTCOME_FAILURES))
    moved = {test.kind: (test.failed_baseline, test.failed_window) for test in outcomes.tests if test.moved}
    assert moved == {"refusal": (2, 47), "any": (2, 47)}
    assert json.loads(json.dumps(outcomes.to_json(), allow_nan=False))["state"] == "moved"


def test_fewer_failures_count_as_moved_too():
    outcomes = outcome_tests(OutcomeCounts(780, {"truncated": 78}), OutcomeCounts(780, {}), alpha=0.01)
    assert [test.kind for test in outcomes.tests if test.moved] == ["truncated", "any"]


def test_kinds_that_are_small_alone_can_move_together():
    window = OutcomeCounts(780, dict.fromkeys(OUTCOME_FAILURES, 4))
    outcomes = outcome_tests(OutcomeCounts(1560, {}), window, alpha=0.01)
    small = outcome_tests(OutcomeCounts(1560, {}), OutcomeCounts(780, {"empty": 4}), alpha=0.01)
    assert [test.kind for test in outcomes.tests if test.moved] == ["any"]
    assert small.state == "ok"


def test_without_an_answer_there_is_no_rate():
    outcomes = outcome_tests(OutcomeCounts(780, {"refusal": 1}), OutcomeCounts(0), alpha=0.01)
    assert (outcomes.state, outcomes.tests) == ("not_evaluable", ())


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="'timeout' is no outcome failure"):
        outcome_tests(OutcomeCounts(10, {"timeout": 1}), OutcomeCounts(10), alpha=0.01)
    with pytest.raises(ValueError, match="11 outcome failures of 10 answers"):
        outcome_tests(OutcomeCounts(10), OutcomeCounts(10, {"empty": 11}), alpha=0.01)


def test_truncated_baseline_answers_move_the_sensitivity_and_not_the_estimate():
    params = EstimateParams(confidence=0.99, min_df=4, min_changed_items=5)
    items = [f"i{n}" for n in range(10)]

    def answers(start):
        return [(item, start + timedelta(days=day), 1.0) for item in items for day in range(10)]

    before, after = answers(date(2027, 1, 1)), answers(date(2027, 2, 1))
    truncated = [(item, day, 1) for item, day, _ in before if day == date(2027, 1, 4)]
    scored = Cells.from_samples(sample for sample in before if sample[1] != date(2027, 1, 4))
    window = Cells.from_samples(after)
    estimate = paired_delta(scored, window, clusters={}, params=params)
    as_wrong = paired_delta(counted_as_wrong(scored, truncated), window, clusters={}, params=params)
    assert estimate.delta == 0
    assert as_wrong.delta == pytest.approx(0.1)
