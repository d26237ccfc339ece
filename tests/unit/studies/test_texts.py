"""What calibration and validation say to a person."""

from typing import Any

import pytest

from canaryd.studies.calibrate_text import confirm_text, design_text, screen_text
from canaryd.studies.design_plot import design_svg
from canaryd.studies.validate_text import validation_text

MDE = {"se": 0.03, "one_window": 0.102, "two_windows": 0.127, "items": 20}
DESIGN = {
    "items": 20,
    "per_day": 1,
    "mean_information": 0.2,
    "mean_score": 0.55,
    "mde": MDE,
    "purchases": [
        {
            "items": items,
            "per_day": rate,
            "calls_per_day": items * rate,
            "calls_per_window": 10 * items * rate,
            "mde": MDE,
        }
        for items in (10, 20)
        for rate in (1, 2)
    ],
}
CALIBRATION: dict[str, Any] = {
    "arm": "tracked",
    "pool": {"path": "pool.jsonl", "items": 3},
    "rule": {"screen_samples": 4, "keep_min": 1.0, "keep_max": 3.0, "confirm_samples": 8},
    "screened": {"kept": 1, "too_easy": 2},
    "families": [{"family": "sums", "items": 3, "kept": 1, "too_easy": 2}],
    "regression": [{"group": "sums", "items": 1, "screen": 0.25, "confirm": 0.5}],
    "by_screen_score": [{"group": "1 of 4", "items": 0, "screen": None, "confirm": None}],
}
ESTIMATE = {"status": "ok", "delta": -0.132, "confidence": 0.99, "ci_item": [-0.289, 0.025], "ci": [-0.3, 0.036]}


def words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_screen_says_what_was_dropped_and_why() -> None:
    said = words(screen_text(CALIBRATION))
    assert "1 kept, 2 too easy" in said
    assert "too easy: the scores sum to more than that" in said
    assert not any("unanswered:" in line for line in said)
    assert said[-1] == "next: canaryd calibrate confirm"
    assert "family items kept too easy too hard unanswered unfinished" in said
    assert "sums 3 1 2 0 0 0" in said


def test_the_confirmation_says_how_far_items_went_back() -> None:
    said = words(confirm_text(CALIBRATION))
    assert "sums 1 25.0 50.0 +25.0" in said
    assert "1 of 4 0 not confirmed yet" in said


def test_the_design_says_what_each_budget_buys() -> None:
    said = words(design_text(DESIGN, power="80 %"))
    assert "panel 20 items, 1 a day, mean score 55.0, mean p(1 - p) 0.2000 (unbiased, fresh samples)" in said
    assert "sees SE 3.00 points; smallest change in one window 10.2, by the rule 12.7 (80 %)" in said
    assert "items 1/day 2/day" in said
    assert "20 12.7 (200) 12.7 (400)" in said


def test_the_picture_is_the_same_bytes_every_time() -> None:
    picture = design_svg(DESIGN, target=0.1)
    assert picture.startswith(b"<?xml")
    assert b"registered target" in picture
    assert design_svg(DESIGN, target=0.1) == picture


@pytest.mark.parametrize(("passed", "said"), [(True, "passed"), (False, "FAILED"), (None, "not judged yet")])
def test_a_validation_says_whether_it_passed(passed: bool | None, said: str) -> None:
    noise = {"phi": 1.04, "df": 18, "limit": 1.93, "exceeds": False}
    tokens = {"change": -0.41, "ci_item": [-0.45, -0.38]}
    report = {
        "series": "main",
        "passed": passed,
        "alpha": 0.01,
        "sessions": ["2027-03-01"],
        "baseline_is_over": True,
        "days": {"passed": passed, "days": [10, 9], "estimate": ESTIMATE, "noise": noise},
        "inside_sessions": {**ESTIMATE, "ci": None},
        "controls": [{"name": "less", "passed": passed, "seen": ["tokens"], "score": ESTIMATE, "tokens": tokens}],
        "cannot_see": "This instrument cannot see much.",
    }
    lines = words(validation_text(report))
    assert lines[0] == f"validation of main: {said} (every test at 0.01)"
    assert "A/A across days: even against odd baseline days (9 and 10)" in lines
    assert f"{said}: -13.2 points, 99 % CI [-30.0, +3.6]" in lines
    assert "phi = V_day / V_obs = 1.04 (df 18; chance alone stays below 1.93)" in lines
    assert f"less {said} seen in tokens" in lines
    assert "tokens -41.0 % [-45.0, -38.0]" in lines
    assert lines[-1] == "This instrument cannot see much."


def test_a_validation_without_data_says_so() -> None:
    nothing = {"status": "no_overlap", "delta": None, "ci_item": None}
    report = {
        "series": "main",
        "passed": None,
        "alpha": 0.01,
        "sessions": [],
        "baseline_is_over": False,
        "days": None,
        "inside_sessions": None,
        "controls": [
            {"name": "less", "passed": None, "seen": [], "score": nothing, "tokens": {"change": None, "ci_item": None}}
        ],
        "cannot_see": "This instrument cannot see much.",
    }
    lines = words(validation_text(report))
    assert "A/A across days: no baseline day is measured yet" in lines
    assert "less not judged yet seen in nothing" in lines
    assert "score no interval (no_overlap)" in lines
    assert "tokens not known on both sides" in lines
