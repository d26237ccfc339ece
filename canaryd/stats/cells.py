"""What the statistics read: per item and day, how many samples there were and their first two sums.

A store of years answers with a few thousand cells, because a window needs no sample a second time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IndexArray: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """The samples of one item on one day: how many were measured, the sum of their values and of their squares.

    The value is a score, a count of output tokens or its logarithm; failures are not samples and enter no cell.
    """

    item_id: str
    day: date
    n: int
    total: float
    total_sq: float


@dataclass(frozen=True, slots=True)
class ItemTotals:
    """Per item, in the order of `items`: the number of samples and the sums of values and squares."""

    items: tuple[str, ...]
    n: FloatArray
    total: FloatArray
    total_sq: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The mean of each item's samples."""
        return self.total / self.n

    def of(self, items: Iterable[str]) -> ItemTotals:
        """Return the totals of the named items, in that order.

        Raises:
            KeyError: an item has no sample here.
        """
        place = {item: index for index, item in enumerate(self.items)}
        wanted = tuple(items)
        rows = np.array([place[item] for item in wanted], dtype=np.intp)
        return ItemTotals(wanted, self.n[rows], self.total[rows], self.total_sq[rows])


class Cells:
    """An immutable set of cells, at most one per item and day, with columns for numpy.

    The order in which rows arrive changes nothing, not even the last bit of a sum.

    Raises:
        ValueError: an (item, day) comes twice, a cell has no sample, or a sum is not finite or not possible.

    >>> cells = Cells([Cell("b", date(2027, 1, 2), 1, 1.0, 1.0), Cell("a", date(2027, 1, 1), 2, 1.0, 1.0)])
    >>> cells.items, cells.by_item().mean.tolist()
    (('a', 'b'), [0.5, 1.0])
    """

    __slots__ = ("_rows", "day_index", "days", "item_index", "items", "n", "total", "total_sq")

    def __init__(self, rows: Iterable[Cell] = ()) -> None:
        self._rows: tuple[Cell, ...] = tuple(sorted(rows, key=lambda row: (row.item_id, row.day)))
        self.items: tuple[str, ...] = tuple(dict.fromkeys(row.item_id for row in self._rows))
        self.days: tuple[date, ...] = tuple(sorted({row.day for row in self._rows}))
        place_of_item = {item: index for index, item in enumerate(self.items)}
        place_of_day = {day: index for index, day in enumerate(self.days)}
        self.item_index: IndexArray = np.array([place_of_item[row.item_id] for row in self._rows], dtype=np.intp)
        self.day_index: IndexArray = np.array([place_of_day[row.day] for row in self._rows], dtype=np.intp)
        self.n: FloatArray = np.array([row.n for row in self._rows], dtype=np.float64)
        self.total: FloatArray = np.array([row.total for row in self._rows], dtype=np.float64)
        self.total_sq: FloatArray = np.array([row.total_sq for row in self._rows], dtype=np.float64)
        self._refuse_impossible()

    @classmethod
    def from_samples(cls, samples: Iterable[tuple[str, date, float]]) -> Cells:
        """Return the cells of single samples, given as (item, day, value)."""
        gathered: dict[tuple[str, date], list[float]] = {}
        for item_id, day, value in samples:
            gathered.setdefault((item_id, day), []).append(value)
        return cls(
            Cell(item_id, day, len(values), sum(sorted(values)), sum(value * value for value in sorted(values)))
            for (item_id, day), values in gathered.items()
        )

    def _refuse_impossible(self) -> None:
        def refuse(wrong: npt.NDArray[np.bool_], why: str) -> None:
            if wrong.any():
                row = self._rows[int(np.argmax(wrong))]
                raise ValueError(f"cell of item {row.item_id!r} on {row.day}: {why}")

        if len(self._rows) > 1:
            same_item = self.item_index[1:] == self.item_index[:-1]
            twice = same_item & (self.day_index[1:] == self.day_index[:-1])
            refuse(np.concatenate([[False], twice]), "given twice, so one of the two would be counted double")
        refuse(~(np.isfinite(self.total) & np.isfinite(self.total_sq)), "its sums are not finite")
        refuse(self.n < 1, "it has no sample, and a cell without samples is left out instead")
        refuse(
            self.total_sq * self.n < self.total**2 * (1 - 1e-9),
            "its sum of squares is smaller than its sum allows",
        )

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._rows)

    def between(self, first: date, last: date) -> Cells:
        """Return the cells of the days first..last, both included."""
        return Cells(row for row in self._rows if first <= row.day <= last)

    def only(self, items: Collection[str]) -> Cells:
        """Return the cells of the named items."""
        wanted = frozenset(items)
        return Cells(row for row in self._rows if row.item_id in wanted)

    def without(self, left_out: Collection[tuple[str, date]]) -> Cells:
        """Return the cells but those of the given items and days."""
        if not left_out:
            return self
        return Cells(row for row in self._rows if (row.item_id, row.day) not in left_out)

    def day_means(self) -> dict[date, dict[str, float]]:
        """Return by day the mean of each item on it."""
        means: dict[date, dict[str, float]] = {day: {} for day in self.days}
        for row in self._rows:
            means[row.day][row.item_id] = row.total / row.n
        return means

    def plus(self, other: Cells) -> Cells:
        """Return both sets together; where both hold an (item, day), its samples are added up."""
        merged = {(row.item_id, row.day): row for row in self._rows}
        for row in other:
            key = row.item_id, row.day
            mine = merged.get(key)
            merged[key] = (
                row
                if mine is None
                else Cell(*key, mine.n + row.n, mine.total + row.total, mine.total_sq + row.total_sq)
            )
        return Cells(merged.values())

    def by_item(self) -> ItemTotals:
        """Return the totals of each item over all days."""
        size = len(self.items)

        def summed(column: FloatArray) -> FloatArray:
            return np.bincount(self.item_index, weights=column, minlength=size).astype(np.float64)

        return ItemTotals(self.items, summed(self.n), summed(self.total), summed(self.total_sq))

    def usable_days(self, panel_items: int, min_share: float) -> tuple[date, ...]:
        """Return the days on which at least `min_share` of `panel_items` items have a sample."""
        present = np.bincount(self.day_index, minlength=len(self.days))
        return tuple(
            day for day, count in zip(self.days, present.tolist(), strict=True) if count / panel_items >= min_share
        )
