"""One calendar grid of UTC dates: the baseline, the decision windows after it, and which of them have ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from canaryd.records import Window


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid of one baseline epoch: `start` is its day 1, the baseline is window 0.

    >>> grid = Grid(date(2027, 1, 1), baseline_days=20, window_days=10)
    >>> grid.window(1).first.isoformat(), grid.index_of(date(2027, 1, 31)), grid.series_day(date(2027, 1, 31))
    ('2027-01-21', 2, 31)
    """

    start: date
    baseline_days: int
    window_days: int

    def __post_init__(self) -> None:
        """Refuse lengths below one day and a start with a time of day."""
        if min(self.baseline_days, self.window_days) < 1:
            raise ValueError(
                f"baseline of {self.baseline_days} and windows of {self.window_days} days; at least 1 each"
            )
        if isinstance(self.start, datetime):
            raise TypeError(f"the grid starts on a date, and {self.start} is a time; pass utc_date() of it")

    @property
    def baseline(self) -> Window:
        """The baseline, days 1..B."""
        return self.window(0)

    def window(self, index: int) -> Window:
        """Return window `index`: 0 is the baseline, k >= 1 covers days B + L(k-1) + 1 .. B + Lk.

        Raises:
            ValueError: the index is negative.
        """
        if index < 0:
            raise ValueError(f"there is no window {index}; the baseline is window 0")
        before = self.baseline_days + self.window_days * (index - 1) if index else 0
        length = self.window_days if index else self.baseline_days
        first = self.start + timedelta(days=before)
        return Window(index, first, first + timedelta(days=length - 1))

    def series_day(self, day: date) -> int:
        """Return which day of the series a date is; the first is 1, and 0 or less lies before it."""
        return (day - self.start).days + 1

    def index_of(self, day: date) -> int:
        """Return the index of the window that a slot date lies in; -1 before the series, where there is none."""
        number = self.series_day(day)
        if number < 1:
            return -1
        return max(0, -(-(number - self.baseline_days) // self.window_days))

    def has_ended(self, index: int, now: datetime) -> bool:
        """Return whether the last day of a window is over at `now`."""
        return utc_date(now) > self.window(index).last

    def last_ended(self, now: datetime) -> int:
        """Return the index of the last window that has ended at `now`; -1 while the baseline runs."""
        today = utc_date(now)
        return max(self.index_of(today), 0) - 1 if today >= self.start else -1

    def days_of(self, index: int) -> tuple[date, ...]:
        """Return the slot dates of a window."""
        window = self.window(index)
        length = (window.last - window.first).days + 1
        return tuple(window.first + timedelta(days=offset) for offset in range(length))

    def end_of(self, index: int) -> datetime:
        """Return the UTC midnight at which a window has ended."""
        return datetime.combine(self.window(index).last + timedelta(days=1), time(0), tzinfo=UTC)


def utc_date(moment: datetime) -> date:
    """Return the UTC date of an aware time.

    Raises:
        ValueError: the time names no zone, so its date is not known.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no zone, and a slot is a UTC date; pass an aware time")
    return moment.astimezone(UTC).date()
