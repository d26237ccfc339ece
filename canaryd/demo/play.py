"""Playing the demo: a project on disk, a model server, and one day after another through the real runner and rule."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

from canaryd import graders
from canaryd.config import Config, parse
from canaryd.daily import decide_due, measure_slot
from canaryd.demo.plan import DemoPlan, configuration_of, models_of, registration_of
from canaryd.demo.server import ModelHost, ModelServer
from canaryd.errors import UsageError
from canaryd.generators import generate
from canaryd.panel import freeze, load, lock_path, system_path
from canaryd.resources import resource
from canaryd.runner.clock import set_demo_clock
from canaryd.runner.registering import register
from canaryd.store import read
from canaryd.store.engine import open_store

DUE_MINUTE = 190
PLAN_FILE = "demo-plan.json"
#: Families whose right answer is the target itself, so that the simulated models can give it.
FAMILIES = ("arith", "modular", "bases", "calendar", "fidelity", "tracing")


def write_project(plan: DemoPlan, folder: Path) -> Config:
    """Write the demo's project into a new folder, register its series and return its configuration.

    Raises:
        UsageError: the folder holds a project already; nothing was written.
    """
    if (folder / "config.toml").exists():
        raise UsageError(f"{folder}: holds a project already; go on with it by --resume, or choose another --dir")
    panel_path = folder / "panel" / "demo.jsonl"
    panel_path.parent.mkdir(parents=True, exist_ok=True)
    generated = generate("canaryd demo", size=plan.items, name="demo", families=FAMILIES)
    panel_path.write_bytes(generated.items)
    Path(system_path(str(panel_path))).write_bytes(generated.system)
    Path(lock_path(str(panel_path))).write_bytes(freeze(load(str(panel_path), graders=graders)))
    (folder / "prereg.toml").write_text(registration_of(plan, resource("prereg.example.toml").read_text()))
    (folder / "demo-api-key.txt").write_text("sk-demo-not-a-secret\n")
    (folder / PLAN_FILE).write_text(json.dumps(dataclasses.asdict(plan)) + "\n")
    eve = datetime.combine(plan.date_of(1) - timedelta(days=1), time(12), UTC)
    (folder / "demo-clock.txt").write_text(f"{eve.isoformat()}\n")
    (folder / "config.toml").write_text(configuration_of(plan))
    return open_project(folder)


def stored_plan(folder: Path) -> DemoPlan:
    """Return the plan of the play in a folder.

    Raises:
        UsageError: there is no play of the demo in the folder.
    """
    try:
        return DemoPlan(**json.loads((folder / PLAN_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        raise UsageError(f"{folder}: there is no demo to go on with; leave out --resume to begin one") from None


def open_project(folder: Path) -> Config:
    """Return the configuration of a demo's project, registering its series where that has not happened yet.

    Raises:
        UsageError: there is no project of the demo in the folder.
    """
    path = folder / "config.toml"
    if not path.is_file():
        raise UsageError(f"{folder}: there is no demo to go on with; leave out --resume to begin one")
    config = parse(path.read_text(), path=path)
    series = config.series[0]
    with open_store(config.store_url, create=True) as store:
        with store.read() as connection:
            is_registered = any(one.name == series.name for one in read.all_series(connection))
        if not is_registered:
            panel = load(str(series.panel), graders=graders)
            start = _clock_date(folder) + timedelta(days=1)
            register(series, panel, store=store, now=_clock_of(folder), start_date=start)
    return config


def play(plan: DemoPlan, config: Config, *, on_day: Callable[[int], None]) -> None:
    """Measure every day that is not measured yet, then let the last window end and decide it; `on_day` follows a day.

    A play that was cut off at any moment goes on where it stopped and ends with the same verdicts.
    """
    folder, series = config.path.parent, config.series[0]
    panel = load(str(series.panel), graders=graders)
    host = ModelHost.of(models_of(plan, panel), items=panel.items, today=lambda: _clock_date(folder))
    with ModelServer(host, port=plan.port):
        for day in range(_first_day(plan, folder), plan.days + 1):
            set_demo_clock(config, plan.date_of(day), minute=DUE_MINUTE)
            measure_slot(config, series, slot_date=plan.date_of(day))
            on_day(day)
    set_demo_clock(config, plan.date_of(plan.days + 1), minute=5)
    decide_due(config, series.name)


def _first_day(plan: DemoPlan, folder: Path) -> int:
    return max(1, (_clock_date(folder) - plan.date_of(1)).days + 1)


def _clock_of(folder: Path) -> datetime:
    return datetime.fromisoformat((folder / "demo-clock.txt").read_text().strip())


def _clock_date(folder: Path) -> date:
    return _clock_of(folder).date()
