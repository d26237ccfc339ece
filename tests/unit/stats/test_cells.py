from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from canaryd.stats.cells import Cell, Cells

DAY = date(2027, 3, 1)
#: The same examples everywhere, however busy the machine.
UNHURRIED = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def test_columns_are_sorted_and_totals_add_up():
    rows = [Cell("b", DAY, 1, 0.5, 0.25), Cell("a", DAY + timedelta(days=1), 2, 1.0, 1.0), Cell("a", DAY, 1, 0.0, 0.0)]
    cells = Cells(rows)
    assert cells.items == ("a", "b")
    assert cells.days == (DAY, DAY + timedelta(days=1))
    assert len(cells) == 3
    totals = cells.by_item()
    assert totals.n.tolist() == [3, 1]
    assert totals.mean.tolist() == [pytest.approx(1 / 3), 0.5]
    assert totals.of(["b"]).total_sq.tolist() == [0.25]


@UNHURRIED
@given(st.permutations(range(12)))
def test_the_order_of_rows_changes_no_bit(order):
    rows = [Cell(f"i{n % 4}", DAY + timedelta(days=n // 4), n + 1, 0.1 * (n + 1), 0.02 * (n + 1)) for n in range(12)]
    shuffled = Cells(rows[place] for place in order)
    assert list(shuffled) == list(Cells(rows))
    assert np.array_equal(shuffled.by_item().total, Cells(rows).by_item().total)


@UNHURRIED
@given(st.permutations([0.1, 0.2, 0.7, 0.3, 1.0]))
def test_the_order_of_samples_changes_no_bit(values):
    assert list(Cells.from_samples(("a", DAY, value) for value in values)) == list(
        Cells.from_samples(("a", DAY, value) for value in [0.1, 0.2, 0.7, 0.3, 1.0])
    )


def test_a_duplicated_row_is_refused():
    row = Cell("a", DAY, 1, 1.0, 1.0)
    with pytest.raises(ValueError, match="item 'a' on 2027-03-01: given twice"):
        Cells([row, Cell("b", DAY, 1, 1.0, 1.0), row])


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (Cell("a", DAY, 0, 0.0, 0.0), "no sample"),
        (Cell("a", DAY, 1, float("nan"), 0.0), "not finite"),
        (Cell("a", DAY, 1, 1.0, float("inf")), "not finite"),
        (Cell("a", DAY, 2, 2.0, 1.0), "sum of squares"),
    ],
)
def test_an_impossible_cell_is_refused_by_name(row, why):
    with pytest.raises(ValueError, match=f"item 'a' on 2027-03-01: .*{why}"):
        Cells([row])


def test_selecting_and_adding():
    first = Cells.from_samples([("a", DAY, 1.0), ("b", DAY, 0.0)])
    second = Cells.from_samples([("a", DAY, 0.0), ("a", DAY + timedelta(days=5), 1.0)])
    together = first.plus(second)
    assert list(together) == [
        Cell("a", DAY, 2, 1.0, 1.0),
        Cell("a", DAY + timedelta(days=5), 1, 1.0, 1.0),
        Cell("b", DAY, 1, 0.0, 0.0),
    ]
    assert list(together.between(DAY, DAY)) == [Cell("a", DAY, 2, 1.0, 1.0), Cell("b", DAY, 1, 0.0, 0.0)]
    assert together.only(["b"]).items == ("b",)
    assert list(Cells().plus(first)) == list(first)


def test_a_day_is_usable_at_exactly_the_registered_share():
    four_of_five = [(f"i{n}", DAY, 1.0) for n in range(4)]
    three_of_five = [(f"i{n}", DAY + timedelta(days=1), 1.0) for n in range(3)]
    cells = Cells.from_samples(four_of_five + three_of_five)
    assert cells.usable_days(5, 0.8) == (DAY,)
    assert cells.usable_days(5, 0.6) == cells.days
    assert Cells().usable_days(5, 0.8) == ()
