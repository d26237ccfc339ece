"""From the clauses of verdicts to figures: what is undefined is absent, what is known to be zero is there."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from canaryd.metrics.values import Values
from canaryd.metrics.windows import add_windows
from canaryd.records import Verdict
from canaryd.stats import evaluable
from canaryd.store.rows import StoredArm, StoredVerdict

TRACKED = StoredArm("sonnet", "tracked", "openai", "m", {})
CONTROL = StoredArm("haiku", "control", "openai", "m", {})


def estimate(delta: float) -> dict[str, Any]:
    return {"status": "ok", "delta": delta, "ci": [delta - 0.02, delta + 0.02], "se": 0.007, "items_paired": 48}


def state(of: dict[str, Any]) -> dict[str, Any]:
    return {"estimate": of, "usable_days": 9, "errors": 12, "attempts": 600}


def beside(**changes: Any) -> dict[str, Any]:
    return {
        "tokens": {"state": "decrease", "change": -0.33, "ci": [-0.4, -0.25]},
        "outcomes": {"state": "ok", "answered_window": 500, "tests": [{"kind": "any", "failed_window": 5}]},
        "headroom": {"mean": 0.66, "state": "ok"},
    } | changes


def verdict(index: int, **clauses: Any) -> StoredVerdict:
    held: dict[str, Any] = {
        "first": "2027-01-21",
        "last": "2027-01-30",
        "panel_items": 50,
        "mde": {"two_windows": 0.024},
        "window": state(estimate(-0.04)),
        "controls": {"haiku": {"window": state(estimate(0.003))}},
        "attribution": None,
        "differences": {"haiku": {"delta": -0.043, "ci_item": [-0.07, -0.01]}},
        "arms": {"sonnet": beside(), "haiku": beside()},
    }
    row = Verdict(
        series="main",
        epoch=1,
        window_index=index,
        kind="no_change_detected",
        direction=None,
        attribution=None,
        reasons=(),
        decided_at=datetime(2027, 1, 31, tzinfo=UTC),
        panel_digest="p",
        registration_digest="r",
        clauses=held | clauses,
    )
    return StoredVerdict(index, row)


def values_of(*verdicts: StoredVerdict) -> dict[str, dict[tuple[str, ...], float]]:
    values = Values()
    add_windows(values, "main", arms=[TRACKED, CONTROL], verdicts=verdicts)
    return values.by_metric


def test_a_decided_window() -> None:
    found = values_of(verdict(1), verdict(2, window=state(estimate(-0.05))))
    tracked = ("main", "sonnet", "latest")
    assert found["window_delta_ratio"][tracked] == -0.05
    assert found["window_delta_ratio"]["main", "sonnet", "previous"] == -0.04
    assert found["window_delta_ratio"]["main", "haiku", "latest"] == 0.003
    assert found["window_delta_ci_lower_ratio"][tracked] == pytest.approx(-0.07)
    assert (found["window_pairs"][tracked], found["window_unpaired_items"][tracked]) == (48, 2)
    assert found["window_error_ratio"][tracked] == 0.02
    assert found["window_outcome_failure_ratio"][tracked] == 0.01
    assert found["window_mde_ratio"] == {("main", "sonnet", each): 0.024 for each in ("latest", "previous")}
    assert found["window_tokens_change_ratio"][tracked] == -0.33
    assert found["window_start_timestamp_seconds"]["main", "latest"] == datetime(2027, 1, 21, tzinfo=UTC).timestamp()
    assert found["window_end_timestamp_seconds"]["main", "latest"] == datetime(2027, 1, 31, tzinfo=UTC).timestamp()
    assert found["baseline_score_ratio"] == {("main", "sonnet"): 0.66, ("main", "haiku"): 0.66}
    assert found["token_state"]["main", "decrease"] == 1
    assert sum(found["outcome_rate_state"].values()) == 1
    assert found["window_difference_ratio"] == {("main", each): -0.043 for each in ("latest", "previous")}


def test_the_difference_to_the_first_control_that_has_one_is_shown() -> None:
    far = {"haiku": {"status": "no_overlap", "delta": None}, "other": {"delta": -0.3, "ci_item": [-0.5, -0.1]}}
    found = values_of(verdict(1, differences={}), verdict(2, differences=far))
    assert found["window_difference_ratio"] == {("main", "latest"): -0.3}
    assert found["window_difference_ci_lower_ratio"] == {("main", "latest"): -0.5}
    assert found["window_difference_ci_upper_ratio"] == {("main", "latest"): -0.1}


def test_an_undefined_estimate_has_pairs_and_no_other_line() -> None:
    too_few = {"status": "single_cluster", "decidable": False, "delta": None, "items_paired": 0, "dropped": []}
    nothing = beside(
        tokens={"state": "not_evaluable", "change": None, "ci": None},
        outcomes={"state": "not_evaluable", "answered_window": 0, "tests": []},
        headroom=None,
    )
    held = {"estimate": too_few, "usable_days": 0, "errors": 0, "attempts": 0}
    found = values_of(
        verdict(
            1,
            window=held,
            controls={"haiku": {"window": held}},
            differences={"haiku": too_few},
            mde=None,
            arms={"sonnet": nothing, "haiku": nothing},
        )
    )
    assert found["window_pairs"]["main", "sonnet", "latest"] == 0
    assert not {name for name in found if name.endswith("_ratio")}
    assert found["token_state"]["main", "not_evaluable"] == 1


def test_the_reasons_against_the_latest_window_are_those_of_the_rule() -> None:
    latest = verdict(2)
    refused = replace(latest.verdict, kind="not_evaluable", reasons=("error_rate", "too_few_days"))
    found = values_of(verdict(1), StoredVerdict(2, refused))["not_evaluable_reason"]
    assert {labels[1] for labels, value in found.items() if value} == {"error_rate", "too_few_days"}
    source = Path(evaluable.__file__).read_text()
    clauses = set(re.findall(r'(?:Clause|_error_rate|_enough_days)\(\s*"(\w+)"', source))
    assert {labels[1] for labels in found} == clauses | {"previous_window"}


def test_before_the_first_decision_the_states_warm_up_and_nothing_pairs() -> None:
    found = values_of()
    assert set(found) == {"window_pairs", "token_state", "outcome_rate_state", "not_evaluable_reason"}
    assert set(found["not_evaluable_reason"].values()) == {0.0}
    assert found["window_pairs"] == {
        ("main", arm, window): 0 for arm in ("sonnet", "haiku") for window in ("latest", "previous")
    }
    assert found["token_state"]["main", "warming_up"] == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_never_exposed(value: float) -> None:
    with pytest.raises(ValueError, match="window_mde_ratio"):
        Values().add("window_mde_ratio", value, "main", "sonnet", "latest")


def test_a_state_that_is_not_in_the_list_is_refused() -> None:
    with pytest.raises(ValueError, match="no state 'fine'"):
        Values().add_state("alarm_state", "fine", "main")
    with pytest.raises(ValueError, match="under labels"):
        Values().add("alarm_state_since_timestamp_seconds", 1.0)
