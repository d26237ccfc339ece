"""Plays a small series whose process is killed again and again, and prints what became of its answers as JSON.

`python kill_points.py FOLDER --kills 200` measures twelve days of 90 items with concurrency 8. Each day is measured by
child processes that are killed with SIGKILL after a random number of acknowledged answers and a random time, and by a
last one that is left alone. `--power-cut` also takes away what was not synced: it needs fsync_shim.c preloaded, which
keeps a copy of each file as of its last fsync. `--normal` opens the store with synchronous=NORMAL, which loses answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from canaryd import graders
from canaryd.config import Config, parse
from canaryd.daily import decide_due, measure_slot
from canaryd.generators import generate
from canaryd.panel import freeze, load, lock_path, system_path
from canaryd.providers.simulated import SimulatedProvider
from canaryd.records import Ask, Reply, Sample
from canaryd.resources import resource
from canaryd.runner.registering import register
from canaryd.store import engine, ledger, read, write
from canaryd.store.engine import open_store

DAY_1 = date(2027, 1, 1)
DAYS, ITEMS = 12, 90
#: Seconds that a simulated answer takes, at least and at most.
LATENCY = (0.001, 0.008)
CONFIG = """
[demo]
clock = "clock.txt"
[store]
url = "sqlite:///canaryd.db"
[[series]]
name = "main"
panel = "panel.jsonl"
[[series.arm]]
name = "tracked"
role = "tracked"
provider = "simulated"
model = "large"
concurrency = 8
options = { eras = [{ from = "2027-01-07", drop = 0.4, token_factor = 0.5 }] }
"""


@dataclass
class Account:
    """What the children said: the answers acknowledged, by day and item, the items asked again; and what was lost."""

    kills: int = 0
    acknowledged: set[tuple[int, str]] = field(default_factory=set)
    asked_again: list[str] = field(default_factory=list)
    lost: set[tuple[int, str]] = field(default_factory=set)


def write_project(folder: Path) -> None:
    """Write and register the project."""
    panel = folder / "panel.jsonl"
    families = ("arith", "modular", "bases", "calendar", "fidelity", "tracing")
    generated = generate("kills", size=ITEMS, name="kills", families=families)
    panel.write_bytes(generated.items)
    Path(system_path(str(panel))).write_bytes(generated.system)
    frozen = load(str(panel), graders=graders)
    Path(lock_path(str(panel))).write_bytes(freeze(frozen))
    registration = resource("prereg.example.toml").read_text()
    for key, value in (("baseline_days", 6), ("window_days", 3), ("horizon_days", 30)):
        registration = re.sub(rf"^{key} = \d+", f"{key} = {value}", registration, count=1, flags=re.MULTILINE)
    (folder / "prereg.toml").write_text(registration)
    (folder / "config.toml").write_text(CONFIG)
    config = config_on(folder, datetime(2026, 12, 31, 12, tzinfo=UTC))
    with open_store(config.store_url, create=True) as store:
        register(config.series[0], frozen, store=store, now=datetime(2026, 12, 31, 12, tzinfo=UTC), start_date=DAY_1)


def config_on(folder: Path, moment: datetime) -> Config:
    """Set the clock and return the configuration."""
    (folder / "clock.txt").write_text(moment.isoformat() + "\n")
    return parse(CONFIG, path=folder / "config.toml")


def measure(folder: Path, day: int, said: int) -> None:
    """Measure a day as a process of its own does, saying on a pipe what is asked and what is acknowledged."""
    latency = random.Random(os.getpid())
    append, ask = write.append_samples, SimulatedProvider.ask

    def append_samples(store: Any, samples: Sequence[Sample], **rest: Any) -> tuple[int, ...]:
        ids = append(store, samples, **rest)
        os.write(said, "".join(f"acknowledged {sample.key.item_id}\n" for sample in samples).encode())
        return ids

    async def ask_slowly(self: SimulatedProvider, question: Ask) -> Reply:
        os.write(said, f"asked {question.item_id}\n".encode())
        await asyncio.sleep(latency.uniform(*LATENCY))
        return await ask(self, question)

    write.append_samples = append_samples
    SimulatedProvider.ask = ask_slowly
    slot = DAY_1 + timedelta(days=day - 1)
    config = config_on(folder, datetime(slot.year, slot.month, slot.day, 3, 10, tzinfo=UTC))
    measure_slot(config, config.series[0], slot_date=slot)


def lines_of(pipe: int) -> Iterator[tuple[str, str]]:
    """Yield what a child says, until its end."""
    rest = b""
    while chunk := os.read(pipe, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            kind, _, item = line.decode().partition(" ")
            yield kind, item


def one_process(folder: Path, day: int, *, account: Account, kill_after: tuple[int, float] | None) -> None:
    """Measure a day in a child; kill it after a number of acknowledged answers and a time, if that is wanted."""
    pipe, said = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(pipe)
        code = 1
        try:
            measure(folder, day, said)
            code = 0
        finally:
            os._exit(code)
    os.close(said)
    known = set(account.acknowledged)
    acknowledged = 0

    def note(kind: str, item: str) -> None:
        nonlocal acknowledged
        if kind == "acknowledged":
            account.acknowledged.add((day, item))
            acknowledged += 1
        elif (day, item) in known:
            account.asked_again.append(item)

    said_so_far = lines_of(pipe)
    if kill_after is not None:
        wanted, seconds = kill_after
        while acknowledged < wanted and (line := next(said_so_far, None)) is not None:
            note(*line)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    for line in said_so_far:
        note(*line)
    os.close(pipe)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        account.kills += 1
    elif os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"the process of day {day} ended with {os.waitstatus_to_exitcode(status)}")


def cut_power(folder: Path) -> None:
    """Put every file of the store back to what it was at its last fsync; the shared memory is gone."""
    for name in ("canaryd.db", "canaryd.db-wal"):
        synced, path = folder / f"{name}.synced", folder / name
        if synced.exists():
            shutil.copyfile(synced, path)
        else:
            path.unlink(missing_ok=True)
    (folder / "canaryd.db-shm").unlink(missing_ok=True)


def stored_items(folder: Path) -> set[tuple[int, str]]:
    """Return day and item of every stored sample."""
    query = "SELECT slot_date, item_id FROM sample JOIN run_start USING (run_id)"
    with closing(sqlite3.connect(folder / "canaryd.db")) as connection:
        return {((date.fromisoformat(day) - DAY_1).days + 1, item) for day, item in connection.execute(query)}


def play(folder: Path, *, kills: int, seed: int, power_cut: bool) -> Account:
    """Play all days with the kills spread over them."""
    account, rng = Account(), random.Random(seed)
    for day in range(1, DAYS + 1):
        for left in range(-(-kills // DAYS), 0, -1):
            done = len([item for of_day, item in account.acknowledged if of_day == day])
            most = max(0, (ITEMS - 10 - done) // left)
            wanted, seconds = rng.randint(0, most), rng.uniform(0, 0.2 if rng.random() < 0.2 else 0.01)
            before = account.kills
            # A process that ended by itself before its kill is followed by one that is killed sooner.
            for after in ((wanted, seconds), (0, seconds / 4), (0, 0.0)):
                if account.kills == before:
                    one_process(folder, day, account=account, kill_after=after)
            if power_cut:
                cut_power(folder)
            lost = account.acknowledged - stored_items(folder)
            account.lost |= lost
            account.acknowledged -= lost
        one_process(folder, day, account=account, kill_after=None)
    return account


def outcome(folder: Path) -> dict[str, Any]:
    """Decide what is due and return what the store ends with."""
    after = DAY_1 + timedelta(days=DAYS)
    config = config_on(folder, datetime(after.year, after.month, after.day, 0, 5, tzinfo=UTC))
    decide_due(config, "main")
    with closing(sqlite3.connect(folder / "canaryd.db")) as connection:
        samples = connection.execute(
            "SELECT slot_date, item_id, replicate, score, failure_kind, output_tokens, text_digest "
            "FROM v_effective_sample ORDER BY slot_date, item_id"
        ).fetchall()
        stored = connection.execute("SELECT count(*) FROM sample").fetchone()[0]
        answered_twice = connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM sample JOIN run_start USING (run_id) WHERE score IS NOT NULL "
            "GROUP BY slot_date, arm, item_id, replicate HAVING count(*) > 1)"
        ).fetchone()[0]
        verdicts = connection.execute(
            "SELECT epoch, window_index, kind, direction, attribution, reasons, decided_at, clauses FROM verdict "
            "ORDER BY verdict_id"
        ).fetchall()
        whole = connection.execute("PRAGMA integrity_check").fetchone()[0]
    with open_store(config.store_url) as store, store.read() as connection_:
        difference = ledger.first_difference(connection_, "main")
        runs = len(read.runs(connection_, "main"))
    return {
        "samples": samples,
        "stored": stored,
        "answered_twice": answered_twice,
        "verdicts": verdicts,
        "integrity": whole,
        "ledger": None if difference is None else str(difference),
        "runs": runs,
    }


def main() -> None:
    """Play once without and once with kills, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20270101)
    parser.add_argument("--power-cut", action="store_true")
    parser.add_argument("--normal", action="store_true")
    options = parser.parse_args()
    if options.normal:
        sqlite_engine = engine.sqlite_engine
        engine.sqlite_engine = lambda url, *, pragmas, **rest: sqlite_engine(
            url, pragmas=tuple(each.replace("synchronous=FULL", "synchronous=NORMAL") for each in pragmas), **rest
        )
    whole, killed = options.folder / "whole", options.folder / "killed"
    whole.mkdir()
    write_project(whole)
    shutil.copytree(whole, killed, ignore=shutil.ignore_patterns("*.synced"))
    if options.power_cut:
        shutil.copyfile(killed / "canaryd.db", killed / "canaryd.db.synced")
    play(whole, kills=0, seed=options.seed, power_cut=False)
    account = play(killed, kills=options.kills, seed=options.seed, power_cut=options.power_cut)
    reference, found = outcome(whole), outcome(killed)
    json.dump(
        {
            "kills": account.kills,
            "runs": found["runs"],
            "lost": len(account.lost),
            "asked_again": len(account.asked_again),
            "stored": found["stored"],
            "answered_twice": found["answered_twice"],
            "samples": len(found["samples"]),
            "same_samples": found["samples"] == reference["samples"],
            "verdicts": len(found["verdicts"]),
            "same_verdicts": found["verdicts"] == reference["verdicts"],
            "integrity": found["integrity"],
            "ledger": found["ledger"],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
