"""A series of many years as canaryd stores it, written in bulk: it could not be measured here.

Replies are independent prose of about 2,000 bytes: words of a made-up vocabulary, as frequent as Zipf's law has it.
Texts are in blocks, runs closed and in the ledger, day totals made; verdicts and the early warning are rows like those
that canaryd writes.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

from canaryd import graders
from canaryd.analysis import Evidence, load_subjects, verdict_of
from canaryd.generators import generate
from canaryd.hashing import digest
from canaryd.panel import Panel, parse
from canaryd.prereg import parse as parse_registration
from canaryd.records import Alarm, Arm, EarlyWarningDay
from canaryd.resources import resource
from canaryd.stats.watch_params import Stream
from canaryd.store import ledger, run_totals, schema, texts, totals
from canaryd.store.engine import Store, open_store
from canaryd.store.rows import PanelFiles, Plan
from canaryd.store.write import register_series

SERIES = "bench"
START = date(2027, 1, 1)
ARMS = (Arm("tracked", "tracked", "simulated", "large"), Arm("control", "control", "simulated", "small"))
SEED = 20270101
PROSE_BYTES = 2000
CONFIG = """
[store]
url = "sqlite:///STORE"
[[series]]
name = "bench"
panel = "panel.jsonl"
[[series.arm]]
name = "tracked"
role = "tracked"
provider = "simulated"
model = "large"
[[series.arm]]
name = "control"
role = "control"
provider = "simulated"
model = "small"
"""
_STREAMS: tuple[Stream, ...] = ("score", "tokens", "difference")


class Prose:
    """Independent texts of a made-up language of 5,000 words."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        letters = random.Random(SEED)
        starts, vowels = ("b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "w", "th", "st"), "aeiou"
        words: dict[str, None] = {}
        while len(words) < 5000:
            syllables = letters.choice((1, 2, 2, 3))
            words["".join(letters.choice(starts) + letters.choice(vowels) for _ in range(syllables))] = None
        self._words = list(words)
        self._weights = list(accumulate(1 / (rank + 10) for rank in range(len(words))))

    def text(self) -> str:
        """Return one text."""
        said = " ".join(self._rng.choices(self._words, cum_weights=self._weights, k=PROSE_BYTES // 4))
        return f"{said[:PROSE_BYTES]} <answer>{self._rng.randint(0, 9999)}</answer>"


def registered(store: Store, *, items: int) -> Panel:
    """Register the series and return its panel."""
    generated = generate(SERIES, size=items, name=SERIES)
    panel = parse(generated.items, generated.system, graders=graders)
    content = resource("prereg.example.toml").read_bytes()
    register_series(
        store,
        Plan(
            series=SERIES,
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
    """Add measured days to a store: every sample graded, each run closed, packed and in the ledger, windows decided."""
    prose = Prose(random.Random(SEED + days.start))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        run_id = connection.execute("SELECT coalesce(max(run_id), 0) FROM run_start").fetchone()[0]
        for day in days:
            for arm in ARMS:
                run_id += 1
                _add_run(connection, run_id, arm=arm.name, day=day)
                said = {item.item_id: prose.text() for item in panel.items}
                rows = _samples(panel, run_id, day=day, said=said)
                connection.executemany(_INSERT, rows)
                bodies = (((item_id, 0), texts.encode(text)) for item_id, text in sorted(said.items()))
                for number, block in enumerate(texts.blocks(bodies), start=1):
                    values = (run_id, number, block.texts, "framed+bz2", block.content)
                    connection.execute("INSERT INTO text_block VALUES (?, ?, ?, ?, ?)", values)
        connection.execute("COMMIT")
    with open_store(f"sqlite:///{path}") as store:
        with store.write() as writing:
            for done in range(run_id - len(days) * len(ARMS) + 1, run_id + 1):
                ledger.extend(writing, SERIES, kind="run", row_id=done)
            totals.keep_missing(writing)
            run_totals.keep_missing(writing)
        _decide(store, days=days)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


_COLUMNS = (
    "run_id", "item_id", "replicate", "asked_at", "ended_at", "calls", "score", "answered", "passed",
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


def _samples(panel: Panel, run_id: int, *, day: int, said: dict[str, str]) -> Iterator[tuple[Any, ...]]:
    rng = random.Random(SEED + run_id)
    for number, item in enumerate(panel.items):
        text = said[item.item_id]
        asked, ended = (f"{_moment(day, second)}.{rng.randrange(10**6):06}Z" for second in (number, number + 2))
        passed = rng.random() < 0.7
        yield (
            run_id, item.item_id, 0, asked, ended, 1, float(passed), 1, passed, "", f"{item.grader.type}@1", "stop",
            "large-2027", "reported", f"resp_{rng.getrandbits(96):024x}", 120, len(text) // 4,
            digest(texts.encode(text)),
        )  # fmt: skip


def _decide(store: Store, *, days: range) -> None:
    """Store a verdict for each window that ended in these days, and a step of each early-warning stream a day.

    The first window's verdict is computed; the others are like it, since only their number matters here.
    """
    with store.read() as connection:
        (subject,) = load_subjects(connection, SERIES)
        first = verdict_of(
            Evidence(connection, subject), index=1, now=datetime.combine(START, datetime.min.time(), UTC)
        )
    grid = subject.grid
    through = START + timedelta(days=days.stop - 1)
    with store.write() as connection:
        for index in range(1, grid.index_of(through)):
            window = grid.window(index)
            if window.last < START + timedelta(days=days.start):
                continue
            clauses = {**first.clauses, "first": window.first.isoformat(), "last": window.last.isoformat()}
            verdict = replace(first, window_index=index, clauses=clauses)
            values = {name: getattr(verdict, name) for name in type(verdict).__slots__}
            (key,) = connection.execute(
                schema.verdict.insert().values(values | {"reasons": list(verdict.reasons)})
            ).inserted_primary_key or (0,)
            ledger.extend(connection, SERIES, kind="verdict", row_id=key)
        for day in days:
            slot = START + timedelta(days=day)
            segment, place = divmod(day, subject.prereg.early_warning.max_segment_days)
            steps = [
                EarlyWarningDay(SERIES, stream, segment + 1, slot, place, 1.0, 20.0, False, slot) for stream in _STREAMS
            ]
            ledger.add(
                connection,
                SERIES,
                table=schema.early_warning,
                rows=[{name: getattr(step, name) for name in EarlyWarningDay.__slots__} for step in steps],
            )
        if days.start == 0:
            alarm = Alarm(SERIES, "ok", first.decided_at, None)
            ledger.add(
                connection, SERIES, table=schema.alarm, rows=[{name: getattr(alarm, name) for name in Alarm.__slots__}]
            )
