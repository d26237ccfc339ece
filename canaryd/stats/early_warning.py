"""The early warning of one series: day scores from cells, their ranks, and segments with their own alarm level.

Everything that decides is fixed before the data: which days are usable, the tie-breaks, the onset prior, the level of
each segment. A stream that has alarmed starts again on fresh days; days chosen by looking would break exactness.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from canaryd.records import EarlyWarningDay
from canaryd.stats.cells import Cells, FloatArray
from canaryd.stats.eprocess import CapitalPath, IntArray, capital_path
from canaryd.stats.watch_params import EarlyWarningParams, Stream


@dataclass(frozen=True, slots=True)
class DayTable:
    """The item means of the usable days: `mean` and `present` have shape (days, items); an absent mean is 0."""

    days: tuple[date, ...]
    mean: FloatArray
    present: NDArray[np.bool_]

    def part(self, rows: slice) -> DayTable:
        """Return the days of a slice."""
        return DayTable(self.days[rows], self.mean[rows], self.present[rows])


@dataclass(frozen=True, slots=True)
class Segment:
    """One e-process from its first fresh day to its alarm, or to the last day so far: `number` counts from 1."""

    number: int
    days: tuple[date, ...]
    ranks: IntArray
    path: CapitalPath


@dataclass(frozen=True, slots=True)
class ChangeDates:
    """The most likely first changed day, and every day whose weight is within the registered ratio of it."""

    best: date
    days: tuple[date, ...]


def day_table(cells: Cells, items: Collection[str], *, min_coverage: float) -> DayTable:
    """Return the item means of one arm on its usable days, over `items` (the arm's, without sentinels).

    A day is usable where at least `min_coverage` of the items have a sample; other days are skipped, not imputed.
    """
    mean, present = _grid(cells, items=items, days=cells.days)
    return _usable(DayTable(cells.days, mean, present), min_coverage)


def difference_table(tracked: Cells, control: Cells, *, shared: Collection[str], min_coverage: float) -> DayTable:
    """Return tracked minus control item means over the `shared` items, a cell counting only where both arms have it.

    A shock that both arms share on a day, on all items or on one, cancels inside the cell.
    """
    days = tuple(sorted(set(tracked.days) & set(control.days)))
    tracked_mean, tracked_present = _grid(tracked, items=shared, days=days)
    control_mean, control_present = _grid(control, items=shared, days=days)
    present = tracked_present & control_present
    mean = np.where(present, tracked_mean - control_mean, 0.0)
    return _usable(DayTable(days, mean, present), min_coverage)


def _grid(cells: Cells, *, items: Collection[str], days: Sequence[date]) -> tuple[FloatArray, NDArray[np.bool_]]:
    column_of = {item: column for column, item in enumerate(sorted(items))}
    row_of = {day: row for row, day in enumerate(days)}
    columns = np.array([column_of.get(item, -1) for item in cells.items], dtype=np.intp)[cells.item_index]
    rows = np.array([row_of.get(day, -1) for day in cells.days], dtype=np.intp)[cells.day_index]
    wanted = (columns >= 0) & (rows >= 0)
    mean = np.zeros((len(days), len(column_of)))
    present = np.zeros(mean.shape, dtype=np.bool_)
    mean[rows[wanted], columns[wanted]] = cells.total[wanted] / cells.n[wanted]
    present[rows[wanted], columns[wanted]] = True
    return mean, present


def _usable(table: DayTable, min_coverage: float) -> DayTable:
    count = table.present.sum(axis=1)
    usable = (count > 0) & (count / max(table.present.shape[1], 1) >= min_coverage)
    days = tuple(day for day, keep in zip(table.days, usable.tolist(), strict=True) if keep)
    return DayTable(days, table.mean[usable], table.present[usable])


def day_scores(table: DayTable) -> FloatArray:
    """Return X_s for every day of the table: the mean over the items present on day s of (y_is - ybar_i).

    ybar_i is the item's mean over all days of the table it is present on. The centring only matters where cells are
    missing, and it treats the days alike, which is all that exactness needs (statistics.md 4.2.1).

    >>> both = np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> day_scores(DayTable((date(2027, 1, 1), date(2027, 1, 2)), both, np.array([[True, True], [True, False]])))
    array([ 0.25, -0.5 ])
    """
    seen = table.present.sum(axis=0)
    item_mean = np.divide(table.mean.sum(axis=0), seen, out=np.zeros(len(seen)), where=seen > 0)
    scores: FloatArray = (table.mean.sum(axis=1) - table.present @ item_mean) / table.present.sum(axis=1)
    return scores


def tie_break(day: date, *, series: str, stream: str) -> float:
    """Return u in [0, 1), fixed before the data: the first 53 bits of SHA-256("series|stream|YYYY-MM-DD") / 2^53.

    >>> tie_break(date(2026, 9, 24), series="demo-series", stream="score")
    0.37870768901084184
    """
    head = hashlib.sha256(f"{series}|{stream}|{day.isoformat()}".encode()).digest()[:8]
    return float((int.from_bytes(head, "big") >> 11) / 2**53)


def day_ranks(table: DayTable, *, series: str, stream: Stream, decimals: int) -> IntArray:
    """Return the rank at which each day entered the list of the days before it, 0-based, lowest first.

    On day t the scores of days 1..t are centred anew and rounded, and r_t = less + floor(u_t (ties + 1)) is taken over
    the days before t. A later centring may order two old days differently; their places in the list stay as they
    were inserted (statistics.md 4.2.2), so that a rank once published never changes.
    """
    ranks = np.zeros(len(table.days), dtype=np.int64)
    for t, day in enumerate(table.days, start=1):
        scores = day_scores(table.part(slice(t))).round(decimals)
        less, ties = int((scores[:-1] < scores[-1]).sum()), int((scores[:-1] == scores[-1]).sum())
        ranks[t - 1] = less + int(tie_break(day, series=series, stream=stream) * (ties + 1))
    return ranks


def segments(
    table: DayTable,
    *,
    series: str,
    stream: Stream,
    params: EarlyWarningParams,
    fresh_starts: Collection[date] = (),
) -> Iterator[Segment]:
    """Yield the stream's segments in order; each begins with n0 fresh days.

    A segment ends on the day of its alarm, after `max_segment_days` usable days, or before a day of `fresh_starts` (the
    first days of a new harness, panel or baseline). Segment r has level alpha / (r (r + 1)), shared by the streams, so
    that the bound alpha covers the whole series. Every stream has its own segments.
    """
    cuts = sorted({bisect_left(table.days, fresh) for fresh in fresh_starts} | {len(table.days)})
    start, number = 0, 1
    while start < len(table.days):
        end = min(start + params.max_segment_days, next(cut for cut in cuts if cut > start))
        part = table.part(slice(start, end))
        ranks = day_ranks(part, series=series, stream=stream, decimals=params.rank_decimals)
        path = capital_path(ranks, params)
        alarms = np.flatnonzero(path.capital[:, 0] >= params.threshold(number))
        if len(alarms) and alarms[0] + 1 < len(ranks):
            ranks = ranks[: alarms[0] + 1]
            path = capital_path(ranks, params)
        yield Segment(number, part.days[: len(ranks)], ranks, path)
        start, number = start + len(ranks), number + 1


def watch(
    table: DayTable,
    *,
    series: str,
    stream: Stream,
    params: EarlyWarningParams,
    fresh_starts: Collection[date] = (),
) -> tuple[EarlyWarningDay, ...]:
    """Return one row per usable day: rank, capital, threshold, alarm and most likely first changed day.

    A row depends on the days up to its own alone, so that recomputing a longer table repeats every earlier row. The
    onset is None during the first n0 days of a segment, where the capital is 1 by definition.
    """
    rows = []
    for segment in segments(table, series=series, stream=stream, params=params, fresh_starts=fresh_starts):
        threshold = params.threshold(segment.number)
        onsets = [segment.days[onset - 1] if onset else None for onset in segment.path.onset[:, 0].tolist()]
        capitals = segment.path.capital[:, 0].tolist()
        for day, rank, capital, onset in zip(segment.days, segment.ranks.tolist(), capitals, onsets, strict=True):
            rows.append(
                EarlyWarningDay(
                    series, stream, segment.number, day, rank, capital, threshold, capital >= threshold, onset
                )
            )
    return tuple(rows)


def change_dates(table: DayTable, *, series: str, stream: Stream, params: EarlyWarningParams) -> ChangeDates | None:
    """Return when the change most likely began, from one segment over all days of the table, not cut at an alarm.

    The weights are pi(j - n0) E_j after the last day (statistics.md 4.2.8 and 10). None while there is no day after
    the baseline.
    """
    if len(table.days) <= params.baseline_days:
        return None
    ranks = day_ranks(table, series=series, stream=stream, decimals=params.rank_decimals)
    weight = capital_path(ranks, params).onset_weight[:, 0]
    candidates = table.days[params.baseline_days :]
    within = np.flatnonzero(weight * params.change_set_ratio >= weight.max())
    return ChangeDates(candidates[int(weight.argmax())], tuple(candidates[row] for row in within))
