"""The token stream: which items take part, and when a shift is a ticket."""

import json
import math
from datetime import date, timedelta

import numpy as np
import pytest

from canaryd.stats.cells import Cells
from canaryd.stats.params import EstimateParams, TokenParams
from canaryd.stats.tokens import TokenCells, token_change

PARAMS = TokenParams(EstimateParams(confidence=0.99, min_df=4, min_changed_items=5), min_change=0.1)
BEFORE, AFTER = date(2027, 1, 1), date(2027, 2, 1)


def _period(samples):
    return TokenCells(
        Cells.from_samples((item, day, float(count)) for item, day, count in samples),
        Cells.from_samples((item, day, math.log(count)) for item, day, count in samples if count > 0),
    )


def _answers(rng, start, *, factor=1.0, items=40, days=10, spread=0.3):
    return [
        (f"i{n:02d}", start + timedelta(days=day), max(1, round(factor * 40 * (n + 1) * rng.lognormal(0, spread))))
        for day in range(days)
        for n in range(items)
    ]


@pytest.mark.parametrize(("factor", "state"), [(0.67, "decrease"), (1.5, "increase"), (1.0, "ok")])
def test_a_shift_in_length_is_found_in_both_directions(factor, state):
    rng = np.random.default_rng(3)
    tokens = token_change(
        _period(_answers(rng, BEFORE)), _period(_answers(rng, AFTER, factor=factor)), clusters={}, params=PARAMS
    )
    assert tokens.state == state
    low, high = tokens.ci
    assert low <= tokens.ci_item[0] <= tokens.change <= tokens.ci_item[1] <= high
    stored = json.loads(json.dumps(tokens.to_json(), allow_nan=False))
    assert stored["change"] == pytest.approx(factor - 1, abs=0.05)
    assert [clause["clause"] for clause in stored["clauses"]] == ["item_leg", "day_leg", "min_change"]


def test_a_certain_but_small_shift_is_no_ticket():
    rng = np.random.default_rng(4)
    before, after = _answers(rng, BEFORE, spread=0.1), _answers(rng, AFTER, factor=1.05, spread=0.1)
    tokens = token_change(_period(before), _period(after), clusters={}, params=PARAMS)
    assert {clause.name: clause.passed for clause in tokens.clauses} == {
        "item_leg": True,
        "day_leg": True,
        "min_change": False,
    }
    assert tokens.state == "ok"


def test_one_long_day_is_no_ticket():
    rng = np.random.default_rng(5)
    before, after = _answers(rng, BEFORE), _answers(rng, AFTER)
    spiked = [(item, day, count * (8 if day == AFTER + timedelta(days=3) else 1)) for item, day, count in after]
    tokens = token_change(_period(before), _period(spiked), clusters={}, params=PARAMS)
    assert {clause.name: clause.passed for clause in tokens.clauses} == {
        "item_leg": True,
        "day_leg": False,
        "min_change": True,
    }
    assert tokens.state == "ok"


def test_items_without_known_or_positive_tokens_are_left_out_and_named():
    rng = np.random.default_rng(6)
    before, after = _answers(rng, BEFORE, items=8), _answers(rng, AFTER, items=8)
    silent = [(item, day, 0 if item == "i03" else count) for item, day, count in after if item != "i05"]
    tokens = token_change(_period(before), _period(silent), clusters={}, params=PARAMS)
    assert tokens.log_ratio.items_paired == 6
    assert tokens.log_ratio.dropped == ("i03", "i05")


def test_nothing_known_is_not_evaluable_and_has_no_figure():
    tokens = token_change(TokenCells(), TokenCells(), clusters={}, params=PARAMS)
    assert tokens.state == "not_evaluable"
    assert tokens.to_json()["change"] is None
    assert tokens.to_json()["ci"] is None


def test_without_two_days_nothing_is_said():
    rng = np.random.default_rng(7)
    tokens = token_change(
        _period(_answers(rng, BEFORE, days=1)), _period(_answers(rng, AFTER, factor=0.3)), clusters={}, params=PARAMS
    )
    assert tokens.state == "not_evaluable"
    assert tokens.ci is None
    assert tokens.ci_item[1] < -0.5
