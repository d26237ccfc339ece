"""One played series for all report tests: a drop in window 2, failures of all sorts, a deviation and an event."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import numpy as np
import pytest

from canaryd import prereg as registration
from canaryd.analysis import analyse
from canaryd.demo.plan import DemoPlan, registration_of
from canaryd.hashing import digest
from canaryd.records import Arm, Failure, Grade, GraderSpec, Item, Reply, RunEnd, RunStart, Sample, SampleKey
from canaryd.runner.characteristics import short_simulation
from canaryd.store import write
from canaryd.store.engine import Store, open_store
from canaryd.store.epochs import Deviation, add_deviation
from canaryd.store.events import Event, add_events
from canaryd.store.lease import Lease, LeasePolicy, acquire_lease
from canaryd.store.migrate import upgrade
from canaryd.store.process import Holder
from canaryd.store.rows import Invalid, PanelFiles, Plan

ROOT = Path(__file__).parents[3]
DAY_1 = date(2027, 1, 1)
SHAPE = DemoPlan(items=24, baseline_days=6, window_days=4, windows=4, seed=1, port=1)
CHANGED_FROM = SHAPE.baseline_days + SHAPE.window_days
#: Texts that stand in the store and must never stand in a report.
PROMPT, ANSWER = "the secret question", "the secret reply"
ITEMS = tuple(
    Item(
        f"item-{n}",
        ("sums", "dates", "code")[n % 3],
        f"template-{n // 2}",
        f"{PROMPT} {n}",
        "yes" if n % 4 == 0 else "no" if n % 4 == 2 else f"only {n}",
        GraderSpec("exact"),
    )
    for n in range(SHAPE.items)
)
ARMS = (Arm("large", "tracked", "openai", "m-large"), Arm("small", "control", "openai", "m-small"))


def moment(day: int) -> datetime:
    return datetime.combine(DAY_1 + timedelta(days=day), time(3), UTC)


def protocol(mode: str) -> bytes:
    example = registration_of(SHAPE, (ROOT / "prereg.example.toml").read_text())
    assert 'mode = "canaryd"' in example
    return example.replace("series = 2000", "series = 100").replace('mode = "canaryd"', f'mode = "{mode}"').encode()


def result(arm: Arm, item: int, *, day: int, luck: float) -> Grade | Failure:
    if (item, day) == (5, 7):
        return Failure("timeout", "nothing came back")
    if (item, day % 5, arm.name) == (6, 2, "large"):
        return Failure("refusal", "it would not answer")
    rate = 0.25 + 0.5 * item / SHAPE.items
    worse = arm.role == "tracked" and day >= CHANGED_FROM
    passed = bool(luck < (rate * 0.2 if worse else rate))
    return Grade(float(passed), True, passed, "", "exact@1")


def measure(store: Store, lease: Lease, *, day: int, registered: str) -> None:
    slot, now = DAY_1 + timedelta(days=day), moment(day)
    starts = [RunStart("play", arm.name, slot, 1, now, now, "sha256:panel", registered, "f") for arm in ARMS]
    if day == 12:
        write.record_missed(
            store, starts, end=RunEnd(now, "missed", "no process ran on that day"), lease=lease, epoch=1
        )
        return
    runs = write.claim_slot(store, starts, lease=lease, epoch=1)
    assert isinstance(runs, tuple)
    luck = np.random.default_rng([SHAPE.seed, day]).random((len(ARMS), SHAPE.items))
    for place, (run, arm) in enumerate(zip(runs, ARMS, strict=True)):
        samples = []
        for number, item in enumerate(ITEMS):
            found = result(arm, number, day=day, luck=luck[place, number])
            tokens = (60 if arm.role == "tracked" and day >= CHANGED_FROM else 100) + (7 * number + 3 * day) % 11
            reply = Reply(ANSWER, "stop", resolved_model=arm.model, output_tokens=tokens, standing="reported")
            samples.append(
                Sample(
                    SampleKey("play", arm.name, slot, item.item_id, 0),
                    found,
                    None if isinstance(found, Failure) else reply,
                    asked_at=now,
                    ended_at=now,
                )
            )
        write.append_samples(store, samples, run_id=run.run_id, lease=lease)
        if (day, arm.name) == (20, "small"):
            write.append_validity(store, Invalid("saturated", "24 samples of small", now, run_id=run.run_id))
        write.end_run(store, RunEnd(now, "completed"), run_id=run.run_id, lease=lease)


def play(store: Store, *, days: int, mode: str = "canaryd") -> None:
    content = protocol(mode)
    simulation = short_simulation(registration.parse(content, source="test"), ITEMS, has_control=True)
    plan = Plan(
        series="play",
        registered_at=moment(-1),
        start_date=DAY_1,
        seed=SHAPE.seed,
        registration=content,
        registration_digest=digest(content),
        panel=PanelFiles("sha256:panel", "played", "1", b"{}", b""),
        items=ITEMS,
        arms=ARMS,
        simulation=simulation,
    )
    write.register_series(store, plan)
    policy = LeasePolicy(timedelta(days=365), lambda holder: True)
    lease = acquire_lease(store, "play", holder=Holder("host", "machine", 1, 1), now=moment(0), policy=policy)
    for day in range(days):
        measure(store, lease, day=day, registered=digest(content))
    add_deviation(store, Deviation("play", "noted", DAY_1, "the first day began <late>", {}, moment(1)))
    roll = Event(
        "play", "large", DAY_1 + timedelta(days=9), "model_roll", {"before": ["m1"], "after": ["m2"]}, moment(9)
    )
    add_events(store, [roll], lease=lease)
    analyse(store, "play", lease=lease, now=moment(days))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "empty.db"
    upgrade(f"sqlite:///{path}")
    return path


@contextmanager
def series(template: Path, *, name: str, days: int, mode: str = "canaryd") -> Iterator[Store]:
    path = template.with_name(f"{name}.db")
    path.write_bytes(template.read_bytes())
    with open_store(f"sqlite:///{path}") as store:
        play(store, days=days, mode=mode)
        yield store


@pytest.fixture(scope="session")
def played(template: Path) -> Iterator[Store]:
    """A store of four decided windows, the last two of them declared changes."""
    with series(template, name="played", days=SHAPE.days) as store:
        yield store


@pytest.fixture(scope="session")
def published(template: Path) -> Iterator[Store]:
    """The same under the published rule."""
    with series(template, name="published", days=SHAPE.days, mode="prereg") as store:
        yield store


@pytest.fixture(scope="session")
def young(template: Path) -> Iterator[Store]:
    """A store of three days."""
    with series(template, name="young", days=3) as store:
        yield store
