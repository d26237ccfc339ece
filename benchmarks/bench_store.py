"""Five years of a daily series: how large the store is, and what one more day's verdict and a status cost in it.

The rows are written in bulk (a series of five years cannot be measured here), with replies of a few hundred characters
and the real ledger; everything that is timed reads them as canaryd does. The obvious way is to load all samples into
pandas, group them by arm, item and day, and average.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
from sqlalchemy import Connection

from benchmarks.figures import Figure, at_least, at_most, paired_ratio
from canaryd import graders
from canaryd.analysis import Evidence, load_subjects
from canaryd.generators import generate
from canaryd.hashing import digest
from canaryd.panel import Panel, parse
from canaryd.prereg import parse as parse_registration
from canaryd.records import Arm
from canaryd.resources import resource
from canaryd.stats.rule import Reference, decide_window
from canaryd.store import ledger, texts, totals
from canaryd.store.engine import Store, open_store
from canaryd.store.flat import COLUMNS, TEXT_COLUMN, table_rows
from canaryd.store.rows import PanelFiles, Plan
from canaryd.store.write import register_series

START = date(2027, 1, 1)
ARMS = (Arm("tracked", "tracked", "simulated", "large"), Arm("control", "control", "simulated", "small"))
SEED = 20270101
WORDS = ("so", "the", "sum", "of", "both", "terms", "is", "divided", "by", "seven", "which", "leaves", "a", "remainder")


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


def registered(store: Store, *, items: int) -> Panel:
    """Register the series and return its panel."""
    generated = generate("bench", size=items, name="bench")
    panel = parse(generated.items, generated.system, graders=graders)
    content = resource("prereg.example.toml").read_bytes()
    register_series(
        store,
        Plan(
            series="bench",
            registered_at=datetime(2026, 12, 31, tzinfo=UTC),
            start_date=START,
            seed=SEED,
            registration=content,
            registration_digest=parse_registration(content, source="prereg").digest,
            panel=PanelFiles(panel.digest, panel.name, panel.version, generated.items, generated.system),
            items=panel.items,
            arms=ARMS,
        ),
    )
    return panel


def fill(path: Path, *, panel: Panel, days: range) -> None:
    """Add measured days to a store: every sample graded, each run closed and in the ledger."""
    rng = random.Random(SEED + days.start)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        run_id = connection.execute("SELECT coalesce(max(run_id), 0) FROM run_start").fetchone()[0]
        sample_id = connection.execute("SELECT coalesce(max(sample_id), 0) FROM sample").fetchone()[0]
        for day in days:
            for arm in ARMS:
                run_id += 1
                _add_run(connection, run_id, arm=arm.name, day=day)
                rows = list(_samples(panel, run_id, day=day, first_id=sample_id + 1, rng=rng))
                sample_id += len(rows)
                connection.executemany(_INSERT, [row for row, _ in rows])
                connection.executemany("INSERT INTO reply_text VALUES (?, ?, ?)", [reply for _, reply in rows])
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open_store(f"sqlite:///{path}") as store, store.write() as writing:
        for done in range(run_id - len(days) * len(ARMS) + 1, run_id + 1):
            ledger.extend(writing, "bench", kind="run", row_id=done)
        totals.keep_missing(writing)


_COLUMNS = (
    "sample_id", "run_id", "item_id", "replicate", "asked_at", "ended_at", "calls", "score", "answered", "passed",
    "grade_detail", "grader", "stop", "resolved_model", "standing", "response_id", "input_tokens", "output_tokens",
    "text_digest",
)  # fmt: skip
_INSERT = f"INSERT INTO sample ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"


def _moment(day: int, second: int) -> str:
    begun = datetime(START.year, START.month, START.day, 3, 10, tzinfo=UTC)
    return (begun + timedelta(days=day, seconds=second)).replace(tzinfo=None).isoformat()


def _add_run(connection: sqlite3.Connection, run_id: int, *, arm: str, day: int) -> None:
    panel_digest, registration = connection.execute("SELECT panel_digest, registration_digest FROM series").fetchone()
    slot = (START + timedelta(days=day)).isoformat()
    at = f"{_moment(day, 0)}.000000Z"
    connection.execute(
        "INSERT INTO run_start (run_id, series, arm, slot_date, attempt, started_at, due_at, panel_digest, "
        "registration_digest, fingerprint, epoch, term) VALUES (?, 'bench', ?, ?, 1, ?, ?, ?, ?, ?, 1, 1)",
        (run_id, arm, slot, at, at, panel_digest, registration, f"sha256:{arm}"),
    )
    connection.execute("INSERT INTO run_end VALUES (?, ?, 'completed', '')", (run_id, at))


def _samples(
    panel: Panel, run_id: int, *, day: int, first_id: int, rng: random.Random
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    for number, item in enumerate(panel.items):
        said = " ".join(rng.choices(WORDS, k=rng.randint(20, 80))) + f". <answer>{rng.randint(0, 9999)}</answer>"
        body = texts.encode(said)
        asked, ended = (f"{_moment(day, second)}.{rng.randrange(10**6):06}Z" for second in (number, number + 2))
        passed = rng.random() < 0.7
        tokens = len(said) // 4
        yield (
            (
                first_id + number, run_id, item.item_id, 0, asked, ended, 1, float(passed), 1, passed, "",
                f"{item.grader.type}@1", "stop", "large-2027", "reported", f"resp_{rng.getrandbits(96):024x}", 120,
                tokens, digest(body),
            ),
            (first_id + number, *texts.pack(body)),
        )  # fmt: skip


@dataclass(frozen=True)
class Look:
    """The last window of a store, as a day's verdict looks at it."""

    evidence: Evidence
    index: int

    @classmethod
    def at(cls, connection: Connection) -> Look:
        """Return the look at the last window of the series."""
        subject = load_subjects(connection, "bench")[-1]
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


def figures(*, smoke: bool) -> list[Figure]:
    """Return size, cost against the obvious way and growth, of five years of two arms (smoke: of 60 days)."""
    size, first = (Size(60, 24, 1), 45) if smoke else (Size(5 * 365, 120, 11), 365)
    with tempfile.TemporaryDirectory() as name:
        young, old = Path(name) / "young.db", Path(name) / "old.db"
        with open_store(f"sqlite:///{old}", create=True) as store:
            panel = registered(store, items=size.items)
        fill(old, panel=panel, days=range(first))
        shutil.copyfile(old, young)
        fill(old, panel=panel, days=range(first, size.days))
        with (
            open_store(f"sqlite:///{young}") as young_store,
            open_store(f"sqlite:///{old}") as old_store,
            young_store.read() as early,
            old_store.read() as late,
        ):
            bytes_a_byte = young.stat().st_size / bytes_as_json_lines(early)
            before, after = Look.at(early), Look.at(late)
            cost = paired_ratio(lambda: load_all(old), after.window, pairs=size.pairs)
            whole = paired_ratio(lambda: load_all(old), after.decide, pairs=size.pairs)
            growth = paired_ratio(after.window, before.window, pairs=5 * size.pairs)
    window = "the window part of one more day's verdict"
    return [
        at_most("the store", "JSON lines of the same samples", size=str(size), ratio=bytes_a_byte, goal=1),
        at_least("all samples in pandas, grouped", window, size=str(size), ratio=cost, goal=100),
        at_least("all samples in pandas, grouped", "the whole decision", size=str(size), ratio=whole, goal=20),
        at_most(window, f"the same after {first} days", size=str(size), ratio=growth, goal=1.1),
    ]
