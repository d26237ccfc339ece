"""A project of one arm behind an OpenAI-compatible server, for the benchmarks that measure whole days."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from canaryd import graders
from canaryd.config import Config, parse
from canaryd.demo.plan import QUICK, registration_of
from canaryd.demo.play import FAMILIES
from canaryd.generators import generate
from canaryd.panel import Panel, freeze, load, lock_path, system_path
from canaryd.providers.simulated_answers import answer_pair
from canaryd.records import Grade
from canaryd.resources import resource
from canaryd.runner.registering import register
from canaryd.store import samples
from canaryd.store.engine import open_store
from canaryd.store.rows import Span

START = date(2027, 1, 1)
MODEL, KEY, CONCURRENCY = "bench-model", "sk-bench-not-a-secret", 16
CONFIG = f"""
[demo]
clock = "clock.txt"
[store]
url = "sqlite:///canaryd.db"
[credentials]
bench_key_file = "key.txt"
[[series]]
name = "bench"
panel = "panel.jsonl"
[[series.arm]]
name = "tracked"
role = "tracked"
provider = "openai"
model = "{MODEL}"
base_url = "BASE_URL"
credential = "bench_key"
concurrency = {CONCURRENCY}
"""
#: What a model says before its answer.
PROSE = "Let us go through the question step by step, and check each of the steps before the answer. " * 5


@dataclass(frozen=True)
class Project:
    """A project on disk, its series registered; its calendar stands where `begin_day` put it."""

    folder: Path
    config: Config
    panel: Panel

    def begin_day(self, day: int) -> date:
        """Move the calendar to a day of the series, counted from 0, and return its slot date."""
        slot = START + timedelta(days=day)
        (self.folder / "clock.txt").write_text(f"{slot.isoformat()}T03:10:00+00:00\n")
        return slot

    def require_all_passed(self, *, days: int) -> None:
        """Require that the first so many days hold one passed sample for each item.

        Raises:
            AssertionError: a sample is missing, failed, or did not pass.
        """
        span = Span("bench", "tracked", START, START + timedelta(days=days - 1))
        with open_store(self.config.store_url) as store, store.read() as connection:
            results = [sample.result for sample in samples.samples(connection, span)]
        assert len(results) == days * len(self.panel.items), f"{len(results)} samples in {days} days"
        assert all(isinstance(each, Grade) and each.passed for each in results)


def write_panel(folder: Path, *, items: int) -> Panel:
    """Write a generated panel and `answers.json`, the right reply to each of its prompts; return the panel."""
    path = folder / "panel.jsonl"
    generated = generate("bench", size=items, name="bench", families=FAMILIES)
    path.write_bytes(generated.items)
    Path(system_path(str(path))).write_bytes(generated.system)
    panel = load(str(path), graders=graders)
    Path(lock_path(str(path))).write_bytes(freeze(panel))
    answers = {item.prompt: PROSE + answer_pair(item).right for item in panel.items}
    (folder / "answers.json").write_text(json.dumps(answers))
    return panel


def write_project(folder: Path, panel: Panel, *, base_url: str) -> Project:
    """Write the project around a panel of `write_panel`, and register its series."""
    text = CONFIG.replace("BASE_URL", base_url)
    (folder / "config.toml").write_text(text)
    (folder / "key.txt").write_text(KEY)
    (folder / "prereg.toml").write_text(registration_of(QUICK, resource("prereg.example.toml").read_text()))
    config = parse(text, path=folder / "config.toml")
    before = datetime.combine(START, datetime.min.time(), UTC) - timedelta(hours=12)
    with open_store(config.store_url, create=True) as store:
        register(config.series[0], panel, store=store, now=before, start_date=START)
    return Project(folder, config, panel)
