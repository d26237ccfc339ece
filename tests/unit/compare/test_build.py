"""What a comparison amounts to."""

import dataclasses
from datetime import date

import pytest

from canaryd.compare.build import CompareParams, compare
from canaryd.compare.side import UNDATED, Answer, Side
from canaryd.compare.text import as_text
from canaryd.errors import ConfigError
from canaryd.stats.params import EstimateParams, HeadroomParams, TokenParams

PARAMS = CompareParams(
    tokens=TokenParams(EstimateParams(confidence=0.99, min_df=4, min_changed_items=5), min_change=0.1),
    min_effect=0.03,
    min_item_share=0.8,
    min_discordant=10,
    z_power=0.8416,
    headroom=HeadroomParams(high=0.9, low=0.1),
)


def one_each(scores, tokens=None, **labels):
    answers = [
        Answer(f"i{n:03d}", UNDATED, score, None if tokens is None else tokens[n]) for n, score in enumerate(scores)
    ]
    return Side(tuple(answers), dated=False, **labels)


def judged(baseline, current, *, unscored="exclude", **params):
    return compare(baseline, current, unscored=unscored, params=dataclasses.replace(PARAMS, **params))


def pairs(lost, won, same):
    return one_each([1] * lost + [0] * won + [1] * same), one_each([0] * lost + [1] * won + [1] * same)


def test_the_published_mcnemar_example():
    result = judged(*pairs(18, 7, 75))
    test = result.mcnemar
    assert (test.lost, test.won, test.chi2_cc) == (18, 7, 4.0)
    assert test.p_reported == pytest.approx(363103 / 8388608)
    assert result.estimate.delta == pytest.approx(-0.11)
    assert "18 lost, 7 won, exact p = 0.04329" in as_text(result, names=("a", "b"))


def test_p_is_withheld_under_ten_discordant_pairs():
    result = judged(*pairs(6, 3, 91))
    assert (result.mcnemar.p_reported, result.mcnemar.reason) == (None, "fewer than 10 discordant pairs")
    assert "p withheld" in as_text(result, names=("a", "b"))
    assert judged(*pairs(6, 4, 90)).mcnemar.p_reported is not None


@pytest.mark.parametrize(
    ("lost", "won", "same", "judgement", "code"),
    [(40, 5, 55, "changed", 1), (5, 40, 55, "changed", 1), (9, 8, 83, "no_change", 0), (0, 0, 100, "no_change", 0)],
)
def test_judgements(lost, won, same, judgement, code):
    result = judged(*pairs(lost, won, same))
    assert (result.judgement, result.exit_code, result.reasons) == (judgement, code, ())


def test_a_certain_change_below_the_minimum_effect_is_none():
    before, after = one_each([1.0] * 200), one_each([0.98] * 100 + [0.985] * 100)
    result = judged(before, after)
    assert result.estimate.ci_item[1] < 0
    assert result.judgement == "no_change"
    assert judged(before, after, min_effect=0.01).judgement == "changed"


@pytest.mark.parametrize(
    ("before", "after", "reasons"),
    [
        (one_each([1, 1]), Side((Answer("z", UNDATED, 1.0, None),), dated=False), ("too_few_items", "no_overlap")),
        (one_each([1]), one_each([0]), ("single_item",)),
        (one_each([1, 0, 1, 1]), one_each([0, 0, 1, 0]), ("too_few_clusters",)),
        (one_each([1] * 20), one_each([0] * 10), ("too_few_items",)),
        (
            one_each([1, 0] * 10, clusters={f"i{n:03d}": "t" for n in range(20)}),
            one_each([0, 0] * 10),
            ("single_cluster",),
        ),
    ],
)
def test_what_cannot_be_judged(before, after, reasons):
    result = judged(before, after)
    assert (result.judgement, result.exit_code, result.reasons) == ("not_judged", 2, reasons)
    assert "COULD NOT BE JUDGED" in as_text(result, names=("a", "b"))
    assert result.to_json()["exit_code"] == 2


def test_unscored_rows_are_left_out_or_wrong_and_the_other_reading_stands_beside():
    before, after = one_each([1] * 60), one_each([1] * 50 + [None] * 10)
    left_out = judged(before, after)
    assert left_out.estimate.delta == 0
    assert left_out.otherwise.delta == pytest.approx(-10 / 60)
    assert left_out.unpaired.unscored == tuple(f"i{n:03d}" for n in range(50, 60))
    wrong = judged(before, after, unscored="wrong")
    assert (wrong.estimate.delta, wrong.otherwise.delta) == (pytest.approx(-10 / 60), 0)
    assert len(wrong.unpaired) == 0
    assert judged(before, before).otherwise is None


def test_unpaired_items_are_listed_whole_in_json():
    before, after = one_each([1, 0] * 30), one_each([1, 0] * 40)
    result = judged(before, after, min_item_share=0.5)
    assert result.to_json()["unpaired"]["current_only"] == [f"i{n:03d}" for n in range(60, 80)]
    assert "only in the current file (20): i060, " in as_text(result, names=("a", "b"))


def test_several_rows_an_item_count_once_and_forbid_mcnemar():
    once = one_each([1, 0] * 10)
    thrice = Side((*one_each([1, 0] * 10).answers, *one_each([0, 0] * 10).answers, *once.answers), dated=False)
    result = judged(once, thrice)
    assert result.estimate.delta == pytest.approx(-1 / 6)
    assert (result.mcnemar, "several scored rows" in result.mcnemar_reason) == (None, True)
    assert "neither 0 nor 1" in judged(once, one_each([0.5, 0] * 10)).mcnemar_reason


def dated(month, shifts):
    answers = [
        Answer(f"i{item:03d}", date(2027, month, day + 1), float((7 * item + 3 * day) % 10 < 5 + shift), None)
        for day, shift in enumerate(shifts)
        for item in range(40)
    ]
    return Side(tuple(answers), dated=True)


def test_dates_give_a_day_leg_that_can_withhold_a_change():
    steady = judged(dated(1, [0] * 8), dated(2, [-2] * 8))
    assert (steady.judgement, steady.estimate.day.days_window) == ("changed", 8)
    shaken = judged(dated(1, [4, -4] * 4), dated(2, [4, -4, 4, -4, -4, -4, -4, -4]))
    assert shaken.estimate.ci_item[1] < 0
    assert shaken.judgement == "no_change"
    assert "day leg SE" in as_text(shaken, names=("a", "b"))
    assert judged(dated(1, [0] * 8), one_each([1, 0] * 20)).estimate.day is None


def test_targets_and_families_are_broken_down():
    targets = {f"i{n:03d}": "yes" if n < 30 else "no" for n in range(60)}
    families = {f"i{n:03d}": "even" if n % 2 else "odd" for n in range(60)}
    before = one_each([1] * 30 + [0] * 30, targets=targets, families=families)
    after = one_each([0] * 30 + [1] * 29 + [0])
    result = judged(before, after)
    assert [(group.change.group, group.baseline_mean, group.current_mean) for group in result.targets] == [
        ("no", 0.0, pytest.approx(29 / 30)),
        ("yes", 1.0, 0.0),
    ]
    assert [group.change.items for group in result.families] == [30, 30]
    assert "100.0 ->   0.0" in as_text(result, names=("a", "b"))


def test_a_target_that_differs_between_the_files_is_refused():
    with pytest.raises(ConfigError, match=r"item 'i000': target is 'yes' in the baseline and 'no'"):
        judged(one_each([1], targets={"i000": "yes"}), one_each([1], targets={"i000": "no"}))


def test_tokens_use_the_rows_that_know_them():
    before = one_each([1] * 20, [100.0 + n for n in range(20)])
    after = one_each([1] * 20, [None, 0.0, *(50.0 + n for n in range(2, 20))])
    tokens = judged(before, after).tokens
    assert (tokens.log_ratio.items_paired, -0.5 < tokens.change < -0.4) == (18, True)
    unknown, silent = judged(before, one_each([1] * 20)), judged(before, one_each([1] * 20, [0.0] * 20))
    assert unknown.tokens is None
    assert "not known on both sides" in as_text(unknown, names=("a", "b"))
    assert "0 on a side for every item" in as_text(silent, names=("a", "b"))


@pytest.mark.parametrize(("passes", "state"), [(46, "already_passed"), (4, "already_failed"), (25, "ok")])
def test_headroom_warns(passes, state):
    side = one_each([1] * passes + [0] * (50 - passes))
    result = judged(side, side)
    assert result.headroom.state == state
    assert ("warning: the baseline already" in as_text(result, names=("a", "b"))) == (state != "ok")


def test_the_mde_is_the_change_that_the_interval_would_find():
    result = judged(*pairs(10, 10, 80))
    assert result.mde == pytest.approx((2.626405 + 0.8416) * result.estimate.se_used, rel=1e-4)
