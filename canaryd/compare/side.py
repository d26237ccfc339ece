"""From the rows of a file to one side of a comparison: typed samples, and what each item belongs to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any, NoReturn

from canaryd.compare.rows import Row, as_text
from canaryd.errors import ConfigError, UsageError
from canaryd.wording import counted

#: What a comparison reads, and the names under which it is looked for; the first that a file has is taken.
COLUMNS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "item_id": ("item_id", "id", "item"),
        "score": ("score",),
        "output_tokens": ("output_tokens",),
        "target": ("target",),
        "cluster": ("cluster",),
        "family": ("family",),
        "date": ("date", "slot_date"),
        "replicate": ("replicate",),
        "sentinel": ("sentinel",),
        "invalid_reason": ("invalid_reason",),
    }
)
#: How a file marks a row as a sentinel's or not; some tools write whole numbers with a point.
_SENTINEL: Mapping[str, bool] = MappingProxyType(
    {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False, "": False}
)
_REQUIRED = ("item_id", "score")
#: Rows of a file without dates all stand on one nominal day, which gives no day leg.
UNDATED = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Answer:
    """One row: `score` in [0, 1] and `output_tokens` are None where the row does not have them."""

    item_id: str
    day: date
    score: float | None
    output_tokens: float | None


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: its answers, and by item the cluster, family and target that the file names.

    `sentinels` and `invalid` count the rows that a file of canaryd's marks so: they enter no comparison. `warning` is a
    sentence about items that have more rows than most, which may be copies; None where there are none.
    """

    answers: tuple[Answer, ...]
    dated: bool
    sentinels: int = 0
    invalid: int = 0
    warning: str | None = None
    clusters: Mapping[str, str] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)

    @property
    def items(self) -> frozenset[str]:
        """The items that the file has a row of."""
        return frozenset(answer.item_id for answer in self.answers)


def build_side(rows: Sequence[Row], *, names: Mapping[str, str]) -> Side:
    """Return one side from its rows; `names` overrides under which name a column is looked for.

    Rows of sentinels, and rows that are marked as invalid, are left out and counted.

    Raises:
        UsageError: a column that is needed or was named is not there.
        ConfigError: a value cannot be read, two rows contradict each other, or no row is left; the message names a row.
    """
    columns = _columns_of(rows, names=names)
    reading = _Reading(columns)
    measuring = [row for row in rows if not reading.is_sentinel(row)]
    valid = [row for row in measuring if not reading.is_invalid(row)]
    if not valid:
        raise ConfigError(f"{rows[0].where}: no row is left without sentinels and invalid rows; give a file of results")
    sentinels, rows = len(rows) - len(measuring), valid
    answers = [reading.answer(row) for row in rows]
    reading.refuse_repeats(rows, answers)
    return Side(
        answers=tuple(answers),
        dated=bool(columns.get("date")),
        sentinels=sentinels,
        invalid=len(measuring) - len(rows),
        warning=None if "replicate" in columns else _uneven(rows, answers),
        clusters=reading.labels(rows, "cluster", required=True),
        families=reading.labels(rows, "family", required=False),
        targets=reading.labels(rows, "target", required=False),
    )


def _uneven(rows: Sequence[Row], answers: Sequence[Answer]) -> str | None:
    """Return a warning where some items have more rows on a date than most items have."""
    counts = Counter((answer.item_id, answer.day) for answer in answers)
    usual = Counter(counts.values()).most_common(1)[0][0]
    more = [key for key, count in counts.items() if count > usual]
    if not more:
        return None
    item, day = more[0]
    where = [
        row.where for row, answer in zip(rows, answers, strict=True) if (answer.item_id, answer.day) == (item, day)
    ]
    others = f" ({counted(len(more), 'item')} of {len(counts)} alike)" if len(more) > 1 else ""
    return (
        f"{where[usual]}: item {item!r} comes {counts[item, day]} times, and most items come {usual}{others}; all "
        "count as its samples, so drop copies or number them in a column replicate"
    )


def _columns_of(rows: Sequence[Row], *, names: Mapping[str, str]) -> dict[str, str]:
    present = dict.fromkeys(column for row in rows for column in row.values)
    found = {}
    for column, aliases in COLUMNS.items():
        wanted = (names[column],) if column in names else aliases
        known = next((name for name in wanted if name in present), None)
        if known is not None:
            found[column] = known
        elif column in names or column in _REQUIRED:
            source = rows[0].where.rpartition(":")[0]
            raise UsageError(
                f"{source}:1: there is no column {' or '.join(wanted)} (there is {', '.join(present)}); "
                f"name yours with --column {column}=NAME"
            )
    return found


@dataclass(frozen=True, slots=True)
class _Reading:
    columns: Mapping[str, str]

    def answer(self, row: Row) -> Answer:
        return Answer(
            item_id=self.item_id(row),
            day=self._day(row) if "date" in self.columns else UNDATED,
            score=self._number(row, "score", high=1.0),
            output_tokens=self._number(row, "output_tokens", high=math.inf),
        )

    def is_sentinel(self, row: Row) -> bool:
        if "sentinel" not in self.columns:
            return False
        text = self._text(row, "sentinel").strip().lower()
        if text not in _SENTINEL:
            self._refuse(row, "sentinel", why=f"is {text!r}, but must be 1 or true, 0 or false, or empty (no sentinel)")
        return _SENTINEL[text]

    def is_invalid(self, row: Row) -> bool:
        return "invalid_reason" in self.columns and bool(self._text(row, "invalid_reason"))

    def item_id(self, row: Row) -> str:
        item_id = self._text(row, "item_id")
        if not item_id:
            self._refuse(row, "item_id", why="is empty, so the row cannot be paired; name its item")
        return item_id

    def labels(self, rows: Iterable[Row], column: str, *, required: bool) -> dict[str, str]:
        found: dict[str, str] = {}
        name = self.columns.get(column)
        for row in rows:
            if name is None or name not in row.values:
                continue
            label, item_id = self._text(row, column), self.item_id(row)
            if not label and required:
                self._refuse(row, column, why="is empty, which would lump unrelated items; name it, or drop the column")
            if label and found.setdefault(item_id, label) != label:
                self._refuse(
                    row, column, why=f"is {label!r}, but was {found[item_id]!r} for the same item before; keep one"
                )
        return found

    def refuse_repeats(self, rows: Sequence[Row], answers: Sequence[Answer]) -> None:
        if "replicate" not in self.columns:
            return
        seen: set[tuple[str, date, str]] = set()
        for row, answer in zip(rows, answers, strict=True):
            key = answer.item_id, answer.day, self._text(row, "replicate")
            if key in seen:
                self._refuse(
                    row, "replicate", why=f"{key[2]!r} of item {key[0]!r} comes twice (on one date); drop the copy"
                )
            seen.add(key)

    def _text(self, row: Row, column: str) -> str:
        return as_text(row.values.get(self.columns[column]))

    def _day(self, row: Row) -> date:
        value = row.values.get(self.columns["date"])
        try:
            moment = value if isinstance(value, date) else datetime.fromisoformat(as_text(value))
        except ValueError:
            self._refuse(row, "date", why=f"is {value!r}, but must be a date such as 2027-03-01; mend that row")
        if not isinstance(moment, datetime):
            return moment
        return moment.astimezone(UTC).date() if moment.tzinfo else moment.date()

    def _number(self, row: Row, column: str, *, high: float) -> float | None:
        if column not in self.columns:
            return None
        value: Any = row.values.get(self.columns[column])
        if isinstance(value, str):
            value = {"true": True, "false": False}.get(value.strip().lower(), value.strip())
        if value is None or value == "":
            return None
        try:
            number = math.nan if isinstance(value, str) and "_" in value else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not 0 <= number <= high or number == math.inf:
            allowed = "between 0 and 1" if high == 1 else "of at least 0"
            self._refuse(
                row, column, why=f"is {value!r}, but must be a number {allowed}, or empty where it is not known"
            )
        return number

    def _refuse(self, row: Row, column: str, *, why: str) -> NoReturn:
        raise ConfigError(f"{row.where}: {self.columns[column]} {why}")
