"""Five years of a daily series: how large the store is, and what one more day's verdict and a status cost in it.

What is timed reads the store as canaryd does. The obvious way is to load all samples into pandas, group them by arm,
item and day, and average.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
from sqlalchemy import Connection

from benchmarks import long_series
from benchmarks.figures import Figure, at_most, command, paired_ratio
from canaryd.analysis import Evidence, load_subjects
from canaryd.config import parse
from canaryd.metrics.snapshot import take_snapshot
from canaryd.schedule import policy_of
from canaryd.stats.early_warning import watch
from canaryd.stats.rule import Reference, decide_window
from canaryd.stats.watch_params import Stream
from canaryd.store import read
from canaryd.store.engine import Store, open_store
from canaryd.store.flat import COLUMNS, TEXT_COLUMN, table_rows

Command = Callable[[], object]
SELECT_1 = """
from sqlalchemy import create_engine, text
with create_engine("sqlite:///old.db").connect() as connection:
    assert connection.scalar(text("SELECT 1")) == 1
"""
PEER = "a process that imports SQLAlchemy, opens the same store and selects 1"


@dataclass(frozen=True)
class Size:
    """How long the series is, and how often each pair is timed."""

    days: int
    items: int
    pairs: int

    def __str__(self) -> str:
        return (
            f"{self.days} days, {self.items} items, 2 arms, {2 * self.days * self.items:,} samples; {self.pairs} pairs"
        )


@dataclass(frozen=True)
class Look:
    """The last window of a store, as a day's verdict looks at it."""

    evidence: Evidence
    index: int

    @classmethod
    def at(cls, connection: Connection) -> Look:
        """Return the look at the last window of the series."""
        subject = load_subjects(connection, long_series.SERIES)[-1]
        last = date.fromisoformat(str(connection.exec_driver_sql("SELECT max(slot_date) FROM run_start").scalar()))
        after = datetime(last.year, last.month, last.day, tzinfo=UTC) + timedelta(days=1)
        return cls(Evidence(connection, subject), subject.grid.last_ended(after))

    def window(self) -> object:
        """Return what the window holds: of every item and arm the days' sums, and what became of the samples."""
        return self.evidence.window(self.index)

    def decide(self) -> object:
        """Return the whole decision: baseline, window, and the window before it."""
        subject = self.evidence.subject
        reference = Reference(self.evidence.window(0), subject.panel, subject.prereg.rule)
        return decide_window(self.evidence.window(self.index), self.evidence.window(self.index - 1), against=reference)

    def day(self) -> object:
        """Return the whole decision, and the last step of each early-warning stream from the days of its segment."""
        return self.decide(), [self._step(stream) for stream in self.evidence.subject.prereg.early_warning.streams]

    def _step(self, stream: Stream) -> object:
        evidence, series = self.evidence, self.evidence.subject.series.name
        stored = read.early_warnings(evidence.connection, series, stream=stream, newest_segment=True)
        table = evidence.day_table(stream, first=stored[0].slot_date, last=stored[-1].slot_date)
        assert table is not None
        (step,) = watch(
            table,
            series=series,
            stream=stream,
            params=evidence.subject.prereg.early_warning,
            stored=stored[:-1],
        )
        return step


def load_all(path: Path) -> pd.DataFrame:
    """Return the mean score by arm, item and day, from all samples that count: the obvious way."""
    with closing(sqlite3.connect(path)) as connection:
        frame = pd.read_sql_query(
            "SELECT arm, slot_date, item_id, score, sentinel, invalid_reason FROM v_effective_sample "
            "WHERE series = 'bench'",
            connection,
        )
    valid = frame[(frame["sentinel"] == 0) & frame["invalid_reason"].isna()]
    return valid.groupby(["arm", "item_id", "slot_date"])["score"].mean()


def bytes_as_json_lines(connection: Connection) -> int:
    """Return the bytes of the flat table with its texts, as one JSON object a line."""
    names = (*COLUMNS, TEXT_COLUMN)
    rows = table_rows(connection, "bench", with_texts=True)
    return sum(len(json.dumps(dict(zip(names, row, strict=True)), default=str)) + 1 for row in rows)


def status_of(folder: Path, store: str) -> Command:
    """Return `canaryd status` on a store of the folder, as a whole process."""
    (folder / f"{store}.toml").write_text(long_series.CONFIG.replace("STORE", store))
    return command([sys.executable, "-m", "canaryd", "--config", f"{store}.toml", "status"], cwd=folder)


def snapshot_of(store: Store, *, days: int) -> Command:
    """Return the making of what a scrape is served from, in the evening of the last day."""
    policy = policy_of(parse(long_series.CONFIG, path=Path("config.toml")))
    now = datetime.combine(long_series.START, datetime.min.time(), UTC) + timedelta(days=days, hours=-2)
    return lambda: take_snapshot(store, [long_series.SERIES], policy=policy, now=now)


def figures(*, smoke: bool) -> list[Figure]:
    """Return size, cost against the obvious way and growth, of five years of two arms (smoke: of 60 days)."""
    size, first = (Size(60, 24, 1), 45) if smoke else (Size(5 * 365, 120, 11), 365)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        young, old = folder / "young.db", folder / "old.db"
        with open_store(f"sqlite:///{old}", create=True) as store:
            panel = long_series.registered(store, items=size.items)
        long_series.fill(old, panel=panel, days=range(first))
        shutil.copyfile(old, young)
        long_series.fill(old, panel=panel, days=range(first, size.days))
        select_1 = command([sys.executable, "-c", SELECT_1], cwd=folder)
        status = status_of(folder, "old.db")
        with (
            open_store(f"sqlite:///{young}") as young_store,
            open_store(f"sqlite:///{old}") as old_store,
            young_store.read() as early,
            old_store.read() as late,
        ):
            bytes_a_byte = young.stat().st_size / bytes_as_json_lines(early)
            before, after = Look.at(early), Look.at(late)
            cost = paired_ratio(after.window, lambda: load_all(old), pairs=size.pairs)
            whole = paired_ratio(after.day, lambda: load_all(old), pairs=size.pairs)
            growth = paired_ratio(after.window, before.window, pairs=5 * size.pairs)
            snapshot = paired_ratio(
                snapshot_of(old_store, days=size.days), snapshot_of(young_store, days=first), pairs=size.pairs
            )
        shown = paired_ratio(status, select_1, pairs=2 * size.pairs - 1)
        shown_growth = paired_ratio(status, status_of(folder, "young.db"), pairs=2 * size.pairs - 1)
    window, all_samples = "the window part of one more day's verdict", "all samples in pandas, grouped"
    prose = f"{size}; {long_series.PROSE_BYTES} bytes of independent prose a reply"
    of = str(size)
    return [
        at_most("the store", "JSON lines of the same samples", size=prose, ratio=bytes_a_byte, goal=0.4),
        at_most(window, all_samples, size=of, ratio=cost, goal=0.005),
        at_most("the whole decision with the early warning", all_samples, size=of, ratio=whole, goal=0.1),
        at_most(window, f"the same after {first} days", size=of, ratio=growth, goal=1.1),
        at_most("`canaryd status`, whole process", PEER, size=of, ratio=shown, goal=1.4),
        at_most(
            "`canaryd status`, whole process", f"the same after {first} days", size=of, ratio=shown_growth, goal=1.1
        ),
        at_most("a snapshot for the scrape", f"the same after {first} days", size=of, ratio=snapshot, goal=2),
    ]
