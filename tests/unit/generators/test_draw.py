"""Draws are the same for ever, and evenly spread."""

from __future__ import annotations

from collections import Counter

import pytest

from canaryd.generators.draw import Draw


def test_a_stream_is_pinned() -> None:
    draw = Draw("seed", "family", 1, 2)

    assert [draw.below(1000) for _ in range(5)] == [472, 127, 893, 207, 750]


def test_streams_of_different_keys_differ() -> None:
    keys = [("a", 1), ("a", 2), ("b", 1), ("a1",), ("a", 1, 0)]

    assert len({Draw(*key).below(2**64) for key in keys}) == len(keys)


@pytest.mark.parametrize("bound", [2, 7, 10])
def test_draws_are_evenly_spread(bound: int) -> None:
    draw = Draw("spread", bound)
    counts = Counter(draw.below(bound) for _ in range(2000 * bound))

    # Chi-squared with at most 9 degrees of freedom: beyond 40 with a chance below 1 in 100,000.
    assert sum((counts[value] - 2000) ** 2 / 2000 for value in range(bound)) < 40


def test_every_order_comes_up() -> None:
    draw = Draw("orders")
    counts = Counter(tuple(draw.shuffled("abc")) for _ in range(6000))

    assert len(counts) == 6
    assert min(counts.values()) > 850


def test_bounds_are_included() -> None:
    draw = Draw("bounds")

    assert {draw.between(3, 5) for _ in range(100)} == {3, 4, 5}
    assert {len(str(draw.digits(4))) for _ in range(100)} == {4}
    assert set(draw.sample("abc", 3)) == set("abc")
