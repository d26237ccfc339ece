"""Answers that are not measurements: whether refusals, truncations and their like became more or less frequent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, TypeAlias

from canaryd.records import OUTCOME_FAILURES, JsonValue
from canaryd.stats.cells import Cell, Cells
from canaryd.stats.estimate import figure

OutcomeState: TypeAlias = Literal["ok", "moved", "not_evaluable"]

#: The row that counts every kind of outcome failure together.
TOGETHER = "any"


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """How many samples got an answer, graded or not (harness failures got none), and how many failed by kind."""

    answered: int
    failures: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutcomeTest:
    """One kind of outcome failure in the baseline and in the window, with the exact two-sided p."""

    kind: str
    failed_baseline: int
    failed_window: int
    p: float
    moved: bool

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "kind": self.kind,
            "failed_baseline": self.failed_baseline,
            "failed_window": self.failed_window,
            "p": figure(self.p),
            "moved": self.moved,
        }


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Whether any rate of outcome failures moved, with the test of every kind and of all together."""

    state: OutcomeState
    answered_baseline: int
    answered_window: int
    threshold: float
    tests: tuple[OutcomeTest, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """Return state and tests as JSON."""
        return {
            "state": self.state,
            "answered_baseline": self.answered_baseline,
            "answered_window": self.answered_window,
            "threshold": figure(self.threshold),
            "tests": [test.to_json() for test in self.tests],
        }


def outcome_tests(baseline: OutcomeCounts, window: OutcomeCounts, *, alpha: float) -> Outcomes:
    """Return the exact tests of every kind of outcome failure and of all together, each at alpha / number of kinds.

    Fisher's exact two-sided test of failed and not failed answers, window against baseline (Fisher 1934, sec. 21.02).

    Raises:
        ValueError: a kind is no outcome failure, or more answers failed than were given.

    >>> steady = OutcomeCounts(1000, {"refusal": 3})
    >>> moved = outcome_tests(steady, OutcomeCounts(500, {"refusal": 30}), alpha=0.01)
    >>> moved.state, [test.kind for test in moved.tests if test.moved]
    ('moved', ['refusal', 'any'])
    """
    from scipy.stats import fisher_exact

    for counts in (baseline, window):
        if unknown := sorted(set(counts.failures) - OUTCOME_FAILURES):
            raise ValueError(f"{unknown[0]!r} is no outcome failure; known: {', '.join(sorted(OUTCOME_FAILURES))}")
        if sum(counts.failures.values()) > counts.answered:
            raise ValueError(f"{sum(counts.failures.values())} outcome failures of {counts.answered} answers")
    threshold = alpha / len(OUTCOME_FAILURES)
    if min(baseline.answered, window.answered) == 0:
        return Outcomes("not_evaluable", baseline.answered, window.answered, threshold, ())
    tests = []
    for kind in (*sorted(OUTCOME_FAILURES), TOGETHER):
        failed = [
            sum(counts.failures.values()) if kind == TOGETHER else counts.failures.get(kind, 0)
            for counts in (baseline, window)
        ]
        table = [[failed[0], baseline.answered - failed[0]], [failed[1], window.answered - failed[1]]]
        p = float(fisher_exact(table).pvalue)
        tests.append(OutcomeTest(kind, failed[0], failed[1], p, p < threshold))
    state: OutcomeState = "moved" if any(test.moved for test in tests) else "ok"
    return Outcomes(state, baseline.answered, window.answered, threshold, tuple(tests))


def counted_as_wrong(scores: Cells, failures: Iterable[tuple[str, date, int]]) -> Cells:
    """Return the cells with every outcome failure as a sample of score 0; failures are (item, day, count).

    A sensitivity beside the estimate that leaves them out, never the estimate itself.

    >>> day = date(2027, 1, 1)
    >>> cells = counted_as_wrong(Cells.from_samples([("a", day, 1.0)]), [("a", day, 1)])
    >>> cells.by_item().mean.tolist()
    [0.5]
    """
    return scores.plus(Cells(Cell(item_id, day, count, 0.0, 0.0) for item_id, day, count in failures))
