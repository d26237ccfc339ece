"""A small series that is measured day by day on a scripted model, on each database."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from canaryd import graders, sandbox
from canaryd.analysis import analyse
from canaryd.config import Budget, Price, Retry, SeriesConfig
from canaryd.daily import Day, DayResult, measure
from canaryd.hashing import digest
from canaryd.panel import Panel, parse
from canaryd.providers.base import Provider, ProviderError
from canaryd.records import Arm, Ask, Reply, Verdict
from canaryd.runner.clock import Clock
from canaryd.runner.closing import Books, close_past
from canaryd.runner.project import held
from canaryd.runner.slot import Slot
from canaryd.schedule import SlotPolicy
from canaryd.store import read
from canaryd.store.engine import Store
from canaryd.store.epochs import epoch_on, epochs
from canaryd.store.rows import PanelFiles, Plan
from canaryd.store.write import register_series
from canaryd.testing import FakeClock, ScriptedProvider

ROOT = Path(__file__).parents[3]
DAY_1 = date(2027, 1, 1)
Answer = Callable[[Ask, int], Reply | ProviderError]


def panel_of(items: int, sentinels: int) -> tuple[Panel, bytes]:
    header = {"name": "p", "version": "1", "licence": "CC0-1.0", "canary": "00000000-0000-4000-8000-000000000000"}
    rows: list[dict[str, Any]] = [header]
    for n in range(items):
        row = {"id": f"i{n}", "family": "f", "cluster": f"c{n}", "prompt": f"What is {n} + {n}?", "target": str(2 * n)}
        rows.append({**row, "grader": {"type": "exact"}})
    for n in range(sentinels):
        row = {"id": f"s{n}", "prompt": f"Say {n}.", "target": str(n), "sentinel": True, "replicates": 4}
        rows.append({**row, "grader": {"type": "exact"}})
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return parse(content, b"Answer in tags.\n", graders=graders), content


def right(ask: Ask) -> str:
    if ask.item_id == "pre-flight":
        return "<answer>ok</answer>"
    number = int(ask.item_id[1:])
    return f"<answer>{number if ask.item_id.startswith('s') else 2 * number}</answer>"


def wrong(ask: Ask) -> str:
    return "<answer>ok</answer>" if ask.item_id == "pre-flight" else "<answer>-1</answer>"


@dataclass
class World:
    """A registered series with its scripted arms; `answer` decides what a model says, `asked` is every call made."""

    store: Store
    panel: Panel
    config: SeriesConfig
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[Ask] = field(default_factory=list)
    clock: Clock = field(default_factory=lambda: FakeClock(datetime(2027, 1, 1, 3, 10, tzinfo=UTC)))
    retry: Retry = field(default_factory=lambda: Retry(calls=2, first_wait_s=1, total_wait_s=10))
    due_minute: int = 190
    policy: SlotPolicy = field(default_factory=lambda: SlotPolicy(190, timedelta(hours=12), 3))
    prices: tuple[Price, ...] = ()
    tools: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.config.name

    def at(self, day: int, hour: int = 3, minute: int = 10) -> date:
        """Set the clock to a time of series day `day` and return its date."""
        slot_date = DAY_1 + timedelta(days=day - 1)
        self.clock = FakeClock(datetime(slot_date.year, slot_date.month, slot_date.day, hour, minute, tzinfo=UTC))
        return slot_date

    def provider(self, arm: Arm) -> Provider:
        def answer(ask: Ask, times: int) -> Reply | ProviderError:
            self.asked.append(ask)
            return self.answers.get(ask.arm, lambda ask, n: Reply(right(ask), "stop"))(ask, times)

        scripted = ScriptedProvider(answer)
        scripted.tool_versions = lambda: self.tools
        return scripted

    def slot(self, slot_date: date) -> Slot:
        with self.store.read() as connection:
            series = read.series(connection, self.name)
            epoch = epoch_on(epochs(connection, series), slot_date)
        return Slot(
            config=self.config,
            series=series,
            panel=self.panel,
            slot_date=slot_date,
            epoch=epoch,
            store=self.store,
            clock=self.clock,
            retry=self.retry,
            due_minute=self.due_minute,
            build_provider=self.provider,
            backend=sandbox.default(),
            prices=self.prices,
        )

    def measure(self, day: int, *, hour: int = 3, canary: bool = False) -> DayResult:
        """Measure series day `day` as a process of its own would."""
        slot = self.slot(self.at(day, hour))
        with held(self.store, self.name, clock=self.clock) as lease:
            books = Books(self.store, slot.series, lease, clock=self.clock, due_minute=self.due_minute)
            close_past(books)
            return measure(Day(slot, books, canary=canary))

    def decide(self, day: int) -> tuple[Verdict, ...]:
        """Decide what is due on series day `day` without measuring."""
        self.at(day, 0, 5)
        with held(self.store, self.name, clock=self.clock) as lease, self.store.read() as connection:
            series = read.series(connection, self.name)
            close_past(Books(self.store, series, lease, clock=self.clock, due_minute=self.due_minute))
            return analyse(self.store, self.name, lease=lease, now=self.clock.now())

    def outcomes(self, day: int) -> list[tuple[str, int, str | None, str]]:
        """Return arm, attempt, outcome and reason of every run of a day."""
        slot_date = DAY_1 + timedelta(days=day - 1)
        with self.store.read() as connection:
            runs = read.runs(connection, self.name, first=slot_date, last=slot_date)
        return [
            (run.start.arm, run.start.attempt, run.end.outcome if run.end else None, run.end.reason if run.end else "")
            for run in runs
        ]


@pytest.fixture
def make_world(store: Store) -> Callable[..., World]:
    def make(
        *,
        name: str = "s",
        items: int = 6,
        sentinels: int = 0,
        grid: tuple[int, int] = (2, 2),
        roles: Sequence[str] = ("tracked", "control"),
        budget: Budget | None = None,
        **arm: Any,
    ) -> World:
        panel, content = panel_of(items, sentinels)
        registration = (ROOT / "prereg.example.toml").read_text()
        for key, value in zip(("baseline_days", "window_days"), grid, strict=True):
            registration = re.sub(rf"^{key} = \d+", f"{key} = {value}", registration, count=1, flags=re.MULTILINE)
        arms = tuple(Arm(role, role, "scripted", f"model-{role}", **arm) for role in roles)
        config = SeriesConfig(name, Path("p.jsonl"), Path("prereg.toml"), 1, arms)
        plan = Plan(
            series=name,
            registered_at=datetime(2026, 12, 31, 12, tzinfo=UTC),
            start_date=DAY_1,
            seed=1,
            registration=registration.encode(),
            registration_digest=digest(registration.encode()),
            panel=PanelFiles(panel.digest, panel.name, panel.version, content, panel.system.encode()),
            items=panel.items,
            arms=arms,
        )
        register_series(store, plan)
        return World(store, panel, replace(config, budget=budget or Budget()))

    return make
