"""A project on the simulated provider with some measured days, for the benchmarks of what reads them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from canaryd import graders
from canaryd.config import parse
from canaryd.daily import measure_slot
from canaryd.demo.plan import FULL, QUICK, registration_of
from canaryd.demo.play import FAMILIES
from canaryd.generators import generate
from canaryd.panel import freeze, load, lock_path, system_path
from canaryd.resources import resource
from canaryd.runner.registering import register
from canaryd.store.engine import open_store

START = date(2027, 1, 1)
CONFIG = """
[demo]
clock = "clock.txt"
[store]
url = "sqlite:///canaryd.db"
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


def fill(folder: Path, *, days: int, items: int) -> None:
    """Write a project into a folder and measure that many days of it with the simulated provider."""
    panel = folder / "panel.jsonl"
    generated = generate("bench", size=items, name="bench", families=FAMILIES)
    panel.write_bytes(generated.items)
    Path(system_path(str(panel))).write_bytes(generated.system)
    frozen = load(str(panel), graders=graders)
    Path(lock_path(str(panel))).write_bytes(freeze(frozen))
    plan = FULL if days >= FULL.days else QUICK
    (folder / "prereg.toml").write_text(registration_of(plan, resource("prereg.example.toml").read_text()))
    (folder / "config.toml").write_text(CONFIG)
    config = parse(CONFIG, path=folder / "config.toml")
    with open_store(config.store_url, create=True) as store:
        before = datetime.combine(START, datetime.min.time(), UTC) - timedelta(hours=12)
        register(config.series[0], frozen, store=store, now=before, start_date=START)
    for day in range(days):
        slot = START + timedelta(days=day)
        (folder / "clock.txt").write_text(f"{slot.isoformat()}T03:10:00+00:00\n")
        measure_slot(config, config.series[0], slot_date=slot)
