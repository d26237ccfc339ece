"""Collapse, aggregates, fabrications and the threshold on planted judgements."""

from dataclasses import replace

import pytest

from canaryd.duel.diagnostics import diagnose
from canaryd.duel.model import Question, SubstrateFault
from canaryd.duel.outcome import collapse, decide, fabrications
from canaryd.duel.report import headline_of
from canaryd.stats.duel import duel_seed


def planted(judged, winners, families=("f",)):
    """Questions in turn of the families, each won by both judges in both orders."""
    questions = [Question(f"q{n}", families[n % len(families)], "?") for n in range(len(winners))]
    return questions, [each for q, w in zip(questions, winners, strict=True) for each in judged(q, (w,) * 4)]


@pytest.fixture
def decided(judges, thresholds):
    def run(questions, entries, weights=None, **changes):
        collapsed = collapse(questions, entries, judges=judges)
        return decide(
            collapsed,
            entries,
            weights=weights or {"f": 1.0},
            thresholds=replace(thresholds, **changes),
            run_ids=["r"],
        )

    return run


def test_planted_counts_are_exact(judged, decided):
    outcome = decided(*planted(judged, ["a"] * 12 + ["b"] * 5 + ["tie"] * 3))
    (family,) = outcome.families
    assert (family.questions, family.wins_a, family.wins_b) == (20, 12, 5)
    assert (outcome.scores[0].weighted, outcome.scores[1].uniform) == (0.6, 0.25)
    assert outcome.gap.gap == pytest.approx(0.35)
    assert (outcome.verdict, outcome.bootstrap.seed) == ("pass", duel_seed(["r"]))


@pytest.mark.parametrize(
    ("said", "winner"),
    [
        (("a", "a", "a", "a"), "a"),
        (("b", "b", "b", "b"), "b"),
        (("a", "b", "a", "a"), "tie"),
        (("a", "a", "b", "b"), "tie"),
        (("a", "a", "tie", "tie"), "tie"),
        (("a", "tie", "a", "a"), "tie"),
    ],
)
def test_the_collapse(judged, judges, said, winner):
    question = Question("q", "f", "?")
    assert collapse([question], judged(question, said), judges=judges).judged[0].winner == winner


def test_a_judge_that_always_prefers_the_first_position_yields_only_ties(judged, decided, judges):
    questions = [Question(f"q{n}", "f", "?") for n in range(10)]
    outcome = decided(questions, [each for q in questions for each in judged(q, ("a", "b", "a", "b"))])
    assert (outcome.verdict, outcome.families[0].wins_a, outcome.families[0].wins_b) == ("no_difference", 0, 0)
    assert outcome.gap.status == "zero_variance"
    found = diagnose(outcome, judges=judges, confidence=0.95)
    for judge in found.judges:
        assert (judge.tie_rate, judge.collapsed_tie_rate, judge.tie_inflation) == (0.0, 1.0, 1.0)
        assert judge.first_position.value == 1.0
        assert judge.first_position.ci[0] > 0.7
    assert (found.kappa, found.agreement, found.longer_wins.value) == (None, 1.0, None)


def test_weighted_and_uniform_scores_may_disagree_and_that_is_the_headline(judged, decided, judges):
    big, small = [Question(f"x{n}", "x", "?") for n in range(10)], [Question(f"y{n}", "y", "?") for n in range(10)]
    entries = [each for n, q in enumerate(big) for each in judged(q, ("a" if n < 5 else "tie",) * 4)]
    entries += [each for n, q in enumerate(small) for each in judged(q, ("b" if n < 8 else "tie",) * 4)]
    outcome = decided([*big, *small], entries, weights={"x": 0.8, "y": 0.2})
    assert outcome.gap.gap == pytest.approx(0.24)
    assert outcome.scores[1].uniform > outcome.scores[0].uniform
    assert headline_of(outcome, names=["left", "right"]).startswith(
        "Uniform and weighted scores disagree: right leads by uniform families, left by the weights. left and right "
        "differ, by the gap: weighted, left leads by 24.0 points"
    )
    assert diagnose(outcome, judges=judges, confidence=0.95).disagreeing_families == ("y",)


@pytest.mark.parametrize(
    ("counts", "state", "ratio"),
    [
        ((0, 0), "none", None),
        ((2, 0), "too_few_to_say", None),
        ((0, 3), "infinite", None),
        ((2, 1), "ratio", 2.0),
        ((3, 2), "ratio", 1.5),
    ],
)
def test_fabrications_count_questions(judged, decided, counts, state, ratio):
    questions = [Question(f"q{n}", "f", "?") for n in range(20)]
    entries = []
    for n, question in enumerate(questions):
        labels = ["hallucinated" if n < count else "correct" for count in counts]
        entries += judged(question, ("a" if n % 2 else "b",) * 4, labels=labels)
    found = fabrications(entries, against_zero=3)
    assert (found.questions, found.records) == (counts, (4 * counts[0], 4 * counts[1]))
    assert (found.state, found.ratio) == (state, ratio)
    outcome = decided(questions, entries)
    assert outcome.fired.fabrications == (state == "infinite" or (ratio or 0) >= 2)
    assert outcome.verdict == ("pass" if outcome.fired.fabrications else "no_difference")


def test_one_label_of_one_judge_in_one_order_is_a_fabrication(judged):
    first, *rest = judged(Question("q", "f", "?"), ("a",) * 4)
    found = fabrications([replace(first, label_b="hallucinated"), *rest], against_zero=3)
    assert (found.questions, found.records) == ((0, 1), (0, 1))


def test_each_clause_fires_alone(judged, decided):
    by_gap = decided(*planted(judged, ["a", "a", "b", "tie", "tie"]))
    assert (by_gap.fired.gap, by_gap.fired.interval) == (True, False)
    by_interval = decided(*planted(judged, ["a"] * 20 + ["tie"] * 120))
    assert (by_interval.fired.gap, by_interval.fired.interval) == (False, True)
    nothing = decided(*planted(judged, ["a", "b"] * 10))
    assert (nothing.verdict, bool(nothing.fired)) == ("no_difference", False)


def test_the_gap_clause_is_reached_through_binary_dust(judged, decided):
    outcome = decided(*planted(judged, ["a"] * 3 + ["b"] + ["tie"] * 6))
    assert outcome.fired.gap


def test_unjudged_is_never_a_tie(judged, unjudged, decided):
    questions, entries = planted(judged, ["a"] * 15 + ["b"] * 5)
    entries = [
        each for each in entries if (each.question_id, each.ordering, each.judge[:3]) != ("q0", "b_first", "two")
    ]
    outcome = decided(questions, [*entries, unjudged(questions[0])])
    assert (outcome.families[0].questions, outcome.families[0].wins_a) == (19, 14)
    assert (outcome.unjudged_share, outcome.verdict) == (0.05, "pass")
    assert outcome.unjudged[0].reason == "two:n:1 b_first: empty, 2 times"


def test_more_than_the_registered_share_unjudged_is_no_verdict(judged, unjudged, decided):
    questions, entries = planted(judged, ["a"] * 20)
    gone = {"q0", "q1"}
    left = [each for each in entries if each.question_id not in gone]
    faults = [unjudged(questions[0]), SubstrateFault("q1", "f", "b", "right", "HTTP 500")]
    outcome = decided(questions, [*left, *faults])
    assert (outcome.verdict, outcome.reasons) == ("no_verdict", ("too_many_unjudged",))
    assert headline_of(outcome, names=["l", "r"]) == "No verdict: 2 of 20 questions could not be judged."
    assert outcome.unjudged[1].reason == "substrate right failed: HTTP 500"


def test_an_unfinished_duel_and_an_empty_family_have_no_verdict(judged, unjudged, decided):
    questions, entries = planted(judged, ["a"] * 20)
    assert decided(questions, entries[:-1]).reasons == ("not_finished",)
    assert decided(questions, []).gap.gap is None
    lonely = Question("z", "z", "?")
    outcome = decided([*questions, lonely], [*entries, unjudged(lonely)], weights={"f": 0.9, "z": 0.1})
    assert outcome.reasons == ("empty_family",)
    assert outcome.scores[0].weighted is None


def test_diagnostics_of_labels_length_and_expectations(judged, decided, judges):
    questions = [
        Question("q0", "f", "?", expected_label="correct", expected_doc_id="doc-1"),
        Question("q1", "f", "?", expected_label="abstained"),
        Question("q2", "f", "?"),
    ]
    entries = [
        *judged(questions[0], ("a",) * 4, labels=("correct", "partial"), texts=("[doc-1]", "x")),
        *judged(questions[1], ("b",) * 4, labels=("correct", "abstained"), texts=("long text", "")),
        *judged(questions[2], ("a", "a", "a", "b"), labels=("correct", "correct")),
    ]
    found = diagnose(decided(questions, entries), judges=judges, confidence=0.95)
    assert found.labels["a"][judges[0]] == {
        "correct": 6,
        "partial": 0,
        "incorrect": 0,
        "abstained": 0,
        "hallucinated": 0,
    }
    assert (found.longer_wins.value, found.longer_wins.questions) == (0.5, 2)
    assert (found.expected_labels["a"].value, found.expected_labels["b"].value) == (0.5, 0.5)
    assert (found.expected_documents["a"].value, found.expected_documents["b"].value) == (1.0, 0.0)
    assert found.agreement == pytest.approx(2 / 3)
