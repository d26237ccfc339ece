"""The golden tables: every row holds, and they are what the documentation and the digests are made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from canaryd import graders
from canaryd.graders import GRADERS, document
from canaryd.graders.base import Example, scored

ROWS = [(name, row) for name, grader in GRADERS.items() for row in grader.examples]


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[f"{name}-{n}" for n, (name, _) in enumerate(ROWS)])
def test_an_example_is_graded_as_its_table_says(name: str, row: Example) -> None:
    item = row.item(name)

    graded = graders.grade_example(name, row)

    assert graders.complaint(item) is None
    assert (graded.score, graded.answered) == (pytest.approx(row.score), row.answered)
    assert graded.grader == f"{name}@{GRADERS[name].version}"
    assert (graders.job(item, row.text) is not None) == (row.result is not None)


@pytest.mark.parametrize("name", GRADERS)
def test_every_table_shows_right_wrong_and_unanswered(name: str) -> None:
    rows = GRADERS[name].examples

    assert {(row.score == 1, row.answered) for row in rows} >= {(True, True), (False, True), (False, False)}


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[f"{name}-{n}" for n, (name, _) in enumerate(ROWS)])
def test_the_right_reply_to_an_example_scores_1(name: str, row: Example) -> None:
    item = row.item(name)
    reply = graders.right_reply(item)

    assert graders.job(item, reply) is not None or graders.grade(item, reply).score == 1


def test_the_page_about_graders_is_written_from_the_tables() -> None:
    page = Path(__file__).parents[3] / "docs" / "graders.md"

    assert page.read_text(encoding="utf-8") == document.document()


def test_a_digest_sees_a_new_version_and_an_edit_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = {graders.digest("number")}
    number = GRADERS["number"]
    for edited in (replace(number, version=2), replace(number, judge=lambda answer, item: scored(0.0))):
        monkeypatch.setattr(graders, "GRADERS", {**GRADERS, "number": edited})
        digests.add(graders.digest("number"))

    assert len(digests) == 3
