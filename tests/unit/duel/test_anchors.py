"""What moved between two duels: a judge, a substrate or nothing."""

from dataclasses import replace

import pytest

from canaryd.duel.anchors import Seen, anchor_figures, movement
from canaryd.duel.model import Anchor, Question, Retrievals
from canaryd.duel.outcome import collapse, decide

ANCHORS = [Anchor(f"a{n}", "?", Retrievals("x", "y"), "a") for n in range(5)]
QUESTIONS = [Question(f"q{n}", "f", "?") for n in range(20)]
CONFIGURED = {"one:m:1": {"family": "x"}, "two:n:1": {"family": "y"}}


@pytest.fixture
def seen(judged, judges, thresholds):
    def build(winners, anchored="aaaaa", configured=CONFIGURED):
        entries = [each for q, w in zip(QUESTIONS, winners, strict=True) for each in judged(q, (w,) * 4)]
        outcome = decide(
            collapse(QUESTIONS, entries, judges=judges),
            entries,
            weights={"f": 1.0},
            thresholds=thresholds,
            run_ids=["r"],
        )
        found = [
            each
            for anchor, said in zip(ANCHORS, anchored, strict=False)
            for each in judged(Question(anchor.id, "anchor", "?"), (said,) * 4)
        ]
        return Seen(outcome, configured, anchor_figures(ANCHORS, found, judges=judges))

    return build


def moved(earlier, later, **weights):
    return movement(earlier, later, weights=weights or {"f": 1.0}, max_anchors_moved=1)


def test_agreement_with_people(seen, judged, judges):
    figures = seen(["a"] * 20, anchored="aabaa").anchors
    assert [(one.judge, one.agreeing, len(one.verdicts)) for one in figures] == [(judge, 4, 5) for judge in judges]
    half = judged(Question("a0", "anchor", "?"), ("a",) * 4)[:1]
    assert anchor_figures(ANCHORS, half, judges=judges)[0].verdicts == {}


def test_nothing_moved(seen):
    found = moved(seen(["a", "b"] * 10), seen(["b", "a"] * 10))
    assert (found.moved, found.banner, found.questions) == ("none", None, 20)
    assert moved(seen(["a"] * 20), seen(["a"] * 20)).moved == "none"


def test_a_substrate_moved(seen):
    found = moved(seen(["a", "b"] * 10), seen(["a"] * 20, anchored="aaaab"))
    assert found.moved == "substrate"
    assert found.shift.gap == pytest.approx(1.0)
    assert moved(seen(["b"] * 20), seen(["a"] * 20)).moved == "substrate"


def test_a_judge_that_moved_is_louder_than_a_substrate(seen, judges):
    found = moved(seen(["a", "b"] * 10), seen(["a"] * 20, anchored="aaabb"))
    assert found.moved == "judge"
    assert found.anchors_moved == dict.fromkeys(judges, ("a3", "a4"))


def test_without_anchors_it_cannot_be_told(seen):
    assert moved(seen(["a", "b"] * 10, anchored=""), seen(["a"] * 20, anchored="")).moved == "unknown"


def test_other_judges_compare_under_a_banner(seen):
    other = seen(["a", "b"] * 10, configured={"one:m:1": {"family": "x"}, "three:o:1": {"family": "z"}})
    found = moved(seen(["a", "b"] * 10), other)
    assert found.banner.startswith("reduced comparability: the judges differ (then one:m:1, two:n:1; now")
    changed = seen(["a", "b"] * 10, configured={**CONFIGURED, "two:n:1": {"family": "y", "params": {"seed": 1}}})
    assert moved(seen(["a", "b"] * 10), changed).banner.endswith("(another configuration of two:n:1)")


def test_an_anchor_that_only_one_duel_judged_says_nothing(seen):
    later = seen(["a", "b"] * 10)
    fewer = replace(later.anchors[0], verdicts={})
    found = moved(seen(["a", "b"] * 10), replace(later, anchors=(fewer, later.anchors[1])))
    assert (found.moved, list(found.anchors_moved)) == ("none", ["two:n:1"])
