"""The early warning of one series: day scores from cells, their ranks, and segments with their own alarm level.

Everything that decides is fixed before the data: which days are usable, the tie-breaks, the onset prior, the level of
each segment. A stream that has alarmed starts again on fresh days; days chosen by looking would break exactness.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from canaryd.records import EarlyWarningDay
from canaryd.stats.cells import FloatArray
from canaryd.stats.eprocess import IntArray, capital_path
from canaryd.stats.watch_params import EarlyWarningParams, Stream

#: The mean of each item on each day that it has samples on.
DayMeans: TypeAlias = Mapping[date, Mapping[str, float]]


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
class ChangeDates:
    """The most likely first changed day, and every day whose weight is within the registered ratio of it."""

    best: date
    days: tuple[date, ...]


def day_table(means: DayMeans, items: Collection[str], *, min_coverage: float) -> DayTable:
    """Return the item means of one arm on its usable days, over `items` (the arm's, without sentinels).

    A day is usable where at least `min_coverage` of the items have a sample; other days are skipped, not imputed.
    """
    days = tuple(sorted(means))
    mean, present = _grid(means, items=items, days=days)
    return _usable(DayTable(days, mean, present), min_coverage)


def difference_table(tracked: DayMeans, control: DayMeans, *, shared: Collection[str], min_coverage: float) -> DayTable:
    """Return tracked minus control item means over the `shared` items, a cell counting only where both arms have it.

    A shock that both arms share on a day, on all items or on one, cancels inside the cell.
    """
    days = tuple(sorted(set(tracked) & set(control)))
    tracked_mean, tracked_present = _grid(tracked, items=shared, days=days)
    control_mean, control_present = _grid(control, items=shared, days=days)
    present = tracked_present & control_present
    mean = np.where(present, tracked_mean - control_mean, 0.0)
    return _usable(DayTable(days, mean, present), min_coverage)


def _grid(means: DayMeans, *, items: Collection[str], days: Sequence[date]) -> tuple[FloatArray, NDArray[np.bool_]]:
    columns = sorted(items)
    shape = (len(days), len(columns))
    mean = np.array([[means[day].get(item, 0.0) for item in columns] for day in days], dtype=np.float64)
    present = np.array([[item in means[day] for item in columns] for day in days], dtype=np.bool_)
    return mean.reshape(shape), present.reshape(shape)


def _usable(table: DayTable, min_coverage: float) -> DayTable:
    count = table.present.sum(axis=1)
    usable = (count > 0) & (count / max(table.present.shape[1], 1) >= min_coverage)
    days = tuple(day for day, keep in zip(table.days, usable.tolist(), strict=True) if keep)
    return DayTable(days, table.mean[usable], table.present[usable])


def day_scores(table: DayTable) -> FloatArray:
    """Return X_s for every day of the table: the mean over the items present on day s of (y_is - ybar_i).

    ybar_i is the item's mean over all days of the table it is present on. The centring only matters where cells are
    missing, and it treats the days alike, which is all that exactness needs.

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


def day_ranks(table: DayTable, *, series: str, stream: Stream, decimals: int, known: Sequence[int] = ()) -> IntArray:
    """Return the rank at which each day entered the list of the days before it, 0-based, lowest first.

    On day t the scores of days 1..t are centred anew and rounded, and r_t = less + floor(u_t (ties + 1)) is taken over
    the days before t. A later centring may order two old days differently; their places in the list stay as they
    were inserted, so that a rank once published never changes. `known` are the ranks of the first days, if published.
    """
    ranks = np.zeros(len(table.days), dtype=np.int64)
    ranks[: len(known)] = known
    for t, day in enumerate(table.days[len(known) :], start=len(known) + 1):
        scores = day_scores(table.part(slice(t))).round(decimals)
        less, ties = int((scores[:-1] < scores[-1]).sum()), int((scores[:-1] == scores[-1]).sum())
        ranks[t - 1] = less + int(tie_break(day, series=series, stream=stream) * (ties + 1))
    return ranks


def watch(
    table: DayTable,
    *,
    series: str,
    stream: Stream,
    params: EarlyWarningParams,
    fresh_starts: Collection[date] = (),
    stored: Sequence[EarlyWarningDay] = (),
) -> tuple[EarlyWarningDay, ...]:
    """Return one row per usable day that has none yet: rank, capital, threshold, alarm, most likely first changed day.

    A segment begins with n0 fresh days, during which the capital is 1 and the onset None. It ends on the day of its
    alarm, after `max_segment_days` usable days, or before a day of `fresh_starts` (the first days of a new harness,
    panel or baseline). Segment r has level alpha / (r (r + 1)), shared by the streams, so that the bound alpha covers
    the whole series. Every stream has its own segments.

    `stored` are the stream's rows so far, in order; of these only the newest segment is read, and the table needs its
    days and the later ones alone. Continuing from stored rows gives the rows that starting over would give, at the cost
    of the new days. Should the stored days of the segment no longer be the table's (samples were set aside since), what
    was published stays, and the next day begins a fresh segment.
    """
    cuts = sorted({bisect_left(table.days, fresh) for fresh in fresh_starts} | {len(table.days)})
    segment = _resumed(table, stored)
    rows: list[EarlyWarningDay] = []
    while (done := segment.start + len(segment.ranks)) < len(table.days):
        end = min(segment.start + params.max_segment_days, next(cut for cut in cuts if cut > segment.start))
        part = table.part(slice(segment.start, end))
        new = _rows(segment, part, series=series, stream=stream, params=params) if done < end else []
        rows += new
        segment = _Segment(segment.number + 1, done + len(new), ())
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment under way: its number, the table's row at which it begins, and the ranks that are stored."""

    number: int
    start: int
    ranks: tuple[int, ...]


def is_cut_short(table: DayTable, stored: Sequence[EarlyWarningDay]) -> bool:
    """Whether the stored days of a segment are no longer those of the table, so that it cannot go on."""
    after = bisect_right(table.days, stored[-1].slot_date)
    return table.days[max(after - len(stored), 0) : after] != tuple(row.slot_date for row in stored)


def _resumed(table: DayTable, stored: Sequence[EarlyWarningDay]) -> _Segment:
    if not stored:
        return _Segment(1, 0, ())
    number = stored[-1].segment
    newest = [row for row in stored if row.segment == number]
    after = bisect_right(table.days, stored[-1].slot_date)
    start = max(after - len(newest), 0)
    if stored[-1].alarm or is_cut_short(table, newest):
        return _Segment(number + 1, after, ())
    return _Segment(number, start, tuple(row.rank for row in newest))


def _rows(
    segment: _Segment, table: DayTable, *, series: str, stream: Stream, params: EarlyWarningParams
) -> list[EarlyWarningDay]:
    """Return the rows of the segment's days that are not stored, up to an alarm; the table is the segment's days."""
    known = len(segment.ranks)
    ranks = day_ranks(table, series=series, stream=stream, decimals=params.rank_decimals, known=segment.ranks)
    path = capital_path(ranks, params, last=len(ranks) - known)
    threshold = params.threshold(segment.number)
    rows = []
    for place, capital in enumerate(path.capital[:, 0].tolist()):
        onset = int(path.onset[place, 0])
        rows.append(
            EarlyWarningDay(
                series=series,
                stream=stream,
                segment=segment.number,
                slot_date=table.days[known + place],
                rank=int(ranks[known + place]),
                capital=capital,
                threshold=threshold,
                alarm=capital >= threshold,
                onset=table.days[onset - 1] if onset else None,
            )
        )
        if rows[-1].alarm:
            break
    return rows


def change_dates(table: DayTable, *, series: str, stream: Stream, params: EarlyWarningParams) -> ChangeDates | None:
    """Return when the change most likely began, from one segment over all days of the table, not cut at an alarm.

    The weights are pi(j - n0) E_j after the last day. None while there is no day after the baseline.
    """
    if len(table.days) <= params.baseline_days:
        return None
    ranks = day_ranks(table, series=series, stream=stream, decimals=params.rank_decimals)
    weight = capital_path(ranks, params).onset_weight[:, 0]
    candidates = table.days[params.baseline_days :]
    within = np.flatnonzero(weight * params.change_set_ratio >= weight.max())
    return ChangeDates(candidates[int(weight.argmax())], tuple(candidates[row] for row in within))
