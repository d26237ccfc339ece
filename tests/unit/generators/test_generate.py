"""Generated panels: the same bytes for ever, evenly spread, clean, and committed to before the seed is known."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from canaryd import graders, hashing, panel
from canaryd.generators import FAMILIES, commitment, document, generate

PANELS = Path(__file__).parents[3] / "panel"


def test_the_starter_panel_is_what_its_seed_generates() -> None:
    starter = generate("canaryd starter panel", size=120, name="starter")

    assert (PANELS / "starter.jsonl").read_bytes() == starter.items
    assert (PANELS / "starter.system.txt").read_bytes() == starter.system


def test_items_are_spread_evenly_over_families_and_levels() -> None:
    lines = [json.loads(line) for line in generate("s", size=120, name="x").items.splitlines()[1:]]

    assert Counter(line["family"] for line in lines) == dict.fromkeys(FAMILIES, 12)
    assert set(Counter(line["id"][:-3] for line in lines).values()) == {3}


@pytest.mark.parametrize("size", [1, 7, 43])
def test_any_size_can_be_had(size: int) -> None:
    assert len(generate("s", size=size, name="x").items.splitlines()) == size + 1


def test_a_larger_panel_of_the_same_seed_holds_the_smaller_one() -> None:
    small, large = (set(generate("s", size=size, name="x").items.splitlines()) for size in (40, 90))

    assert small < large


@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_a_generated_panel_lints_clean(seed: str) -> None:
    made = generate(seed, size=120, name="x")

    assert panel.lint(made.items, made.system, graders=graders) == []


def test_families_may_be_chosen() -> None:
    lines = generate("s", size=10, name="x", families=("arith", "ordering")).items.splitlines()[1:]

    assert {json.loads(line)["family"] for line in lines} == {"arith", "ordering"}


def test_the_header_commits_to_the_seed() -> None:
    header = json.loads(generate("secret", size=1, name="x").items.splitlines()[0])

    assert header["seed_commitment"] == commitment("secret") == hashing.digest(b"canaryd panel seed\nsecret")
    assert header["canary"] != json.loads(generate("other", size=1, name="x").items.splitlines()[0])["canary"]


def test_an_empty_panel_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one item"):
        generate("s", size=0, name="x")


def test_a_family_that_runs_out_of_questions_says_so() -> None:
    with pytest.raises(ValueError, match="family bases has no more different questions at level 1"):
        generate("s", size=400, name="x", families=("bases",))


def test_the_page_about_families_is_written_from_their_table() -> None:
    page = Path(__file__).parents[3] / "docs" / "families.md"

    assert page.read_text(encoding="utf-8") == document.document()
