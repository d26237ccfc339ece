from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest

from canaryd.stats.cells import Cell, Cells
from canaryd.stats.early_warning import (
    DayTable,
    change_dates,
    day_ranks,
    day_table,
    difference_table,
    watch,
)
from canaryd.stats.evaluable import PanelShape, Period
from canaryd.stats.params import EstimateParams, MdeParams, RuleParams
from canaryd.stats.rule import Reference, WindowData, decide_windows
from canaryd.stats.watch_params import EarlyWarningParams
from canaryd.stats.watch_state import early_warning_state

FIRST = date(2027, 3, 1)
RULE = RuleParams(
    mode="canaryd",
    baseline_days=10,
    window_days=10,
    estimate=EstimateParams(confidence=0.99, min_df=4, min_changed_items=5),
    min_effect=0.03,
    max_error_rate=0.05,
    min_usable_day_share=0.7,
    min_day_item_share=0.8,
    min_item_share=0.8,
    did_confidence=0.95,
    z=2.576,
    mde=MdeParams(z_confidence=2.576, z_power=0.842, two_window_factor=1.24),
)
PARAMS = EarlyWarningParams(
    alpha=0.01,
    streams=("score",),
    direction="either",
    thetas=(3.0, 10.0),
    baseline_days=10,
    freeze_days=60,
    max_segment_days=365,
    min_coverage=0.8,
    rank_decimals=9,
    prior_single_weight=0.5,
    prior_block_days=10,
    change_set_ratio=20.0,
)


def _cells(scores, present=None, first=FIRST):
    present = np.ones(scores.shape, dtype=bool) if present is None else present
    return Cells(
        Cell(
            f"item-{column}",
            first + timedelta(int(row)),
            1,
            float(scores[row, column]),
            float(scores[row, column] ** 2),
        )
        for row, column in np.argwhere(present)
    )


def _means(scores, present=None):
    return _cells(scores, present).day_means()


def _items(columns):
    return [f"item-{column}" for column in range(columns)]


def _table(scores, present=None):
    return day_table(_means(scores, present), _items(scores.shape[1]), min_coverage=PARAMS.min_coverage)


def _panel(seed, days=60, drop_from=None, drop=0.3):
    rng = np.random.default_rng(seed)
    pass_rate = np.full((days, 40), 0.6)
    if drop_from is not None:
        pass_rate[drop_from:] -= drop
    return (rng.random(pass_rate.shape) < pass_rate).astype(float)


def _watch(table, params=PARAMS, **kwargs):
    return watch(table, series="s", stream="score", params=params, **kwargs)


def _ranks(table):
    return day_ranks(table, series="s", stream="score", decimals=9).tolist()


def test_days_with_too_few_items_are_skipped_and_foreign_items_do_not_count():
    scores = _panel(1, days=4)
    present = np.ones(scores.shape, dtype=bool)
    present[1, :9] = False
    present[2, :8] = False
    table = _table(scores, present)
    assert table.days == (FIRST, FIRST + timedelta(2), FIRST + timedelta(3))
    half = day_table(_means(scores), _items(20), min_coverage=0.8)
    assert half.mean.sum() == scores[:, :20].sum()
    assert day_table(_means(scores), [], min_coverage=0.8).days == ()


def test_ranks_ignore_item_names_shifts_of_items_and_the_scale():
    scores, present = _panel(2), np.random.default_rng(3).random((60, 40)) < 0.9
    ranks = _ranks(_table(scores, present))
    order = np.random.default_rng(4).permutation(40)
    assert _ranks(_table(scores[:, order], present[:, order])) == ranks
    per_item = np.linspace(0.0, 2.0, 40)
    assert _ranks(_table(scores + per_item, present)) == ranks
    assert _ranks(_table(scores * 4.0, present)) == ranks
    assert len(set(ranks)) > 10


def test_a_published_row_never_changes_when_days_are_added():
    scores, present = _panel(5, drop_from=35), np.random.default_rng(6).random((60, 40)) < 0.95
    full = _watch(_table(scores, present))
    for days in (12, 36, 47):
        assert _watch(_table(scores[:days], present[:days])) == full[: len(_table(scores[:days], present[:days]).days)]


def test_a_lasting_drop_alarms_once_and_the_next_segment_starts_on_fresh_days():
    rows = _watch(_table(_panel(7, days=80, drop_from=20)))
    alarms = [row for row in rows if row.alarm]
    assert len(alarms) == 1
    assert 25 <= (alarms[0].slot_date - FIRST).days <= 30
    assert alarms[0].onset is not None
    assert abs((alarms[0].onset - FIRST).days - 20) <= 2
    after = [row for row in rows if row.slot_date > alarms[0].slot_date]
    assert {row.segment for row in after} == {2}
    assert after[0].rank == 0
    assert [row.capital for row in after[:10]] == [1.0] * 10
    assert [row.onset for row in after[:10]] == [None] * 10
    assert after[10].onset is not None
    assert (alarms[0].threshold, after[0].threshold) == (200.0, 600.0)


def _verdicts(scores):
    """Verdicts of the two windows of ten days that follow a baseline of ten."""

    def window(index, first):
        cells = _cells(scores).between(FIRST + timedelta(first), FIRST + timedelta(first + 9))
        return WindowData(index, Period(cells, attempts=400, fingerprints=frozenset({"harness"})))

    reference = Reference(window(0, 0), PanelShape(40), RULE)
    return [decision.verdict for decision in decide_windows([window(1, 10), window(2, 20)], against=reference)]


def test_one_bad_day_alone_is_neither_a_change_nor_an_early_warning():
    assert _verdicts(_panel(1, days=30, drop_from=10))[1] == "change"
    for seed in range(20):
        scores = _panel(seed, days=30)
        for item in np.flatnonzero(scores[24])[:5]:
            scores[24, item] = 0.0
        bad_day = scores[24].mean()
        assert bad_day <= _panel(seed, days=30)[24].mean() - 0.12
        rows = _watch(_table(scores), replace(PARAMS, baseline_days=20))
        assert not any(row.alarm for row in rows)
        assert "change" not in _verdicts(scores)


def test_a_new_harness_ends_the_segment_at_its_first_usable_day():
    scores = _panel(8, days=50)
    present = np.ones(scores.shape, dtype=bool)
    present[30] = False
    rows = _watch(_table(scores, present), fresh_starts=[FIRST + timedelta(30)])
    assert [row.segment for row in rows] == [1] * 30 + [2] * 19
    assert rows[30].slot_date == FIRST + timedelta(31)
    assert rows[30].rank == 0


def test_a_segment_ends_after_its_registered_length():
    rows = _watch(_table(_panel(9)), replace(PARAMS, max_segment_days=25))
    assert [row.segment for row in rows] == [1] * 25 + [2] * 25 + [3] * 10


@pytest.mark.parametrize("step", [1, 7, 33])
def test_continuing_from_stored_rows_gives_the_rows_of_starting_over(step):
    params = replace(PARAMS, max_segment_days=45, freeze_days=12)
    fresh = [FIRST + timedelta(12), FIRST + timedelta(90)]
    scores = _panel(21, days=120, drop_from=70)
    present = np.random.default_rng(22).random(scores.shape) < 0.95
    whole = _watch(_table(scores, present), params, fresh_starts=fresh)
    stored = ()
    for days in range(step, 120 + step, step):
        newest = [row.slot_date for row in stored if row.segment == stored[-1].segment]
        table = _table(scores[:days], present[:days])
        if newest:
            table = table.part(slice(table.days.index(newest[0]), None))
        stored += _watch(table, params, fresh_starts=fresh, stored=stored)
    assert [replace(row, capital=0.0) for row in stored] == [replace(row, capital=0.0) for row in whole]
    assert [row.capital for row in stored] == pytest.approx([row.capital for row in whole], rel=1e-12)
    assert {row.segment for row in whole} >= {1, 2, 3, 4}
    assert any(row.alarm for row in whole)
    assert _watch(table, params, fresh_starts=fresh, stored=stored) == ()


def test_days_set_aside_later_leave_the_published_rows_and_start_a_fresh_segment():
    scores = _panel(23, days=40)
    stored = _watch(_table(scores[:30]))
    present = np.ones(scores.shape, dtype=bool)
    present[25] = False
    new = _watch(_table(scores, present), stored=stored)
    assert [row.slot_date for row in new] == [FIRST + timedelta(day) for day in range(30, 40)]
    assert {row.segment for row in new} == {2}
    assert new[0].rank == 0


def test_the_difference_stream_is_immune_to_shocks_that_both_arms_share():
    tracked, control = _panel(10), _panel(11)
    shock = np.linspace(0.0, 3.0, 60)[:, None] + np.zeros(40)
    shock[33, 7] = 9.0

    def ranks(tracked_scores, control_scores):
        table = difference_table(
            _means(tracked_scores), _means(control_scores), shared=_items(40), min_coverage=PARAMS.min_coverage
        )
        return _ranks(table)

    assert ranks(tracked + shock, control + shock) == ranks(tracked, control)
    assert _ranks(_table(tracked + shock)) != _ranks(_table(tracked))


def test_the_difference_stream_needs_both_arms_on_a_cell():
    tracked, control = _panel(12, days=3), _panel(13, days=3)
    present = np.ones(control.shape, dtype=bool)
    present[1, :9] = False
    table = difference_table(_means(tracked), _means(control, present), shared=_items(40), min_coverage=0.8)
    assert table.days == (FIRST, FIRST + timedelta(2))
    present[1, 8] = True
    table = difference_table(_means(tracked), _means(control, present), shared=_items(40), min_coverage=0.8)
    assert table.present.sum(axis=1).tolist() == [40, 32, 40]
    assert not table.mean[~table.present].any()


def test_an_alarm_is_latched_until_a_window_with_it_is_decided():
    rows = _watch(_table(_panel(14, days=40, drop_from=20)))
    alarm = next(row for row in rows if row.alarm)
    upto = rows[: rows.index(alarm) + 1]
    assert early_warning_state([], decided_through=None) == "warming_up"
    assert early_warning_state(rows[:10], decided_through=None) == "warming_up"
    assert early_warning_state(rows[:11], decided_through=None) == "ok"
    assert early_warning_state(upto, decided_through=None) == "alarm"
    assert early_warning_state(rows, decided_through=alarm.slot_date - timedelta(1)) == "alarm"
    assert early_warning_state(upto, decided_through=alarm.slot_date) == "warming_up"
    assert early_warning_state(rows, decided_through=rows[-1].slot_date) in {"ok", "warming_up"}


def test_change_dates_surround_the_day_of_the_change():
    table = _table(_panel(15, days=45, drop_from=25))
    found = change_dates(table, series="s", stream="score", params=PARAMS)
    assert found is not None
    assert abs((found.best - FIRST).days - 25) <= 1
    assert found.best in found.days
    narrow = change_dates(table, series="s", stream="score", params=replace(PARAMS, change_set_ratio=1.0))
    assert narrow is not None
    assert narrow.days == (found.best,)
    assert set(narrow.days) < set(found.days)
    assert change_dates(table.part(slice(10)), series="s", stream="score", params=PARAMS) is None


def test_an_empty_table_has_no_rows():
    empty = DayTable((), np.zeros((0, 5)), np.zeros((0, 5), dtype=bool))
    assert _watch(empty) == ()
