"""Asking for a study: what is missing, arms side by side, each answer stored as it lands."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from canaryd import sandbox
from canaryd.errors import MeasurementRefused
from canaryd.records import Arm, Ask, Failure, Item, Sample
from canaryd.runner.execute import Execution, Lane, execute
from canaryd.runner.grading import Grading, needs_sandbox
from canaryd.runner.plan import plan_asks
from canaryd.runner.record import Recorder
from canaryd.store import studies
from canaryd.store.studies import Stage
from canaryd.studies.laboratory import Laboratory
from canaryd.studies.purse import allowed

Progress: TypeAlias = Callable[[int, int], None]

#: Replicates of each stage are numbered from here: no sample of one can be taken for one of another, or of a run.
FIRST_REPLICATE: Mapping[Stage, int] = {"screen": 1000, "confirm": 2000, "validate": 3000}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a stage wants: `samples` answers of each item from each arm; a session is asked anew every day."""

    stage: Stage
    arms: tuple[Arm, ...]
    items: tuple[Item, ...]
    samples: int

    @property
    def by_session(self) -> bool:
        """Whether the samples are wanted once a day."""
        return self.stage == "validate"


@dataclass(frozen=True, slots=True)
class Collected:
    """What one pass brought: samples that landed, samples still missing, failures by kind, and what stopped it."""

    landed: int
    missing: int
    failures: Mapping[str, int]
    stopped: str | None


def collect(lab: Laboratory, wanted: Wanted, *, on_landed: Progress = lambda *_: None) -> Collected:
    """Ask what is missing of a stage, as far as the budget goes, and return what came of it.

    `on_landed` is told how many samples of a pass are stored, of how many.

    What is stored is never asked again; a failure of the harness is no answer and is asked again by the next call. A
    pass that reaches midnight goes on under the new date.

    Raises:
        MeasurementRefused: the sandbox does not work, or the provider refuses the request itself.
        ConfigError, CredentialsError: an arm cannot be asked as configured; nothing was asked.
    """
    if needs_sandbox(wanted.items):
        sandbox.probe(backend=lab.backend, rng=random.SystemRandom())
    ids = {
        arm.name: studies.open_study(lab.store, lab.key(arm, wanted.stage), now=lab.clock.now()) for arm in wanted.arms
    }
    arms = {arm.name: arm for arm in wanted.arms}
    landed, failures, stopped = 0, Counter[str](), None
    while owed := missing_asks(lab, wanted, ids=ids):
        pays = allowed(lab, owed, arms=arms)
        stopped = pays.why
        if not pays.asks:
            break
        lanes = asyncio.run(_ask_all(_Pass(lab, wanted, ids, owed[: pays.asks], on_landed)))
        results = [result for lane in lanes.values() for result in lane.results]
        landed += len(results)
        failures.update(result.kind for result in results if isinstance(result, Failure))
        _refuse_config_errors(lanes)
        if not any(lane.stopped for lane in lanes.values()) or lab.today == owed[0].slot_date:
            break
    return Collected(landed, len(missing_asks(lab, wanted, ids=ids)), dict(sorted(failures.items())), stopped)


def missing_asks(lab: Laboratory, wanted: Wanted, *, ids: Mapping[str, int]) -> tuple[Ask, ...]:
    """Return the asks of a stage whose samples are not final yet, arms interleaved, in an order fixed by the seed."""
    first, today = FIRST_REPLICATE[wanted.stage], lab.today
    with lab.store.read() as connection:
        done = {
            (arm, sample.item_id, sample.replicate, sample.slot_date if wanted.by_session else today)
            for arm, study_id in ids.items()
            for sample in studies.samples(connection, study_id)
            if sample.is_final
        }
    planned = plan_asks(
        [dataclasses.replace(item, replicates=wanted.samples) for item in wanted.items],
        arms=list(ids),
        series=lab.series.name,
        slot_date=today,
        seed=lab.series.seed,
        system=lab.panel.system,
    )
    numbered = (dataclasses.replace(ask, replicate=first + ask.replicate) for ask in planned)
    return tuple(ask for ask in numbered if (ask.arm, ask.item_id, ask.replicate, today) not in done)


@dataclass(slots=True)
class _Pass:
    """One pass over asks that the budget covers."""

    lab: Laboratory
    wanted: Wanted
    ids: Mapping[str, int]
    asks: Sequence[Ask]
    on_landed: Progress
    landed: int = 0

    def append(self, rows: Sequence[tuple[int, Sample]]) -> None:
        """Store samples as they land."""
        for study_id in dict.fromkeys(study_id for study_id, _ in rows):
            own = [sample for row, sample in rows if row == study_id]
            studies.append_samples(self.lab.store, own, study_id=study_id)
        self.landed += len(rows)
        self.on_landed(self.landed, len(self.asks))


async def _ask_all(run: _Pass) -> Mapping[str, Lane]:
    lab = run.lab
    lanes = {arm.name: Lane(arm, lab.build_provider(arm), run.ids[arm.name]) for arm in run.wanted.arms}
    grading = Grading({item.item_id: item for item in run.wanted.items}, lab.backend, random.SystemRandom())
    recorder = Recorder(run.append)
    try:
        await execute(
            run.asks,
            Execution(
                lanes=lanes,
                grade=grading.grade,
                keep=recorder,
                retry=lab.config.retry,
                clock=lab.clock,
                seen=lambda response_id: _seen(lab, response_id),
            ),
        )
    finally:
        recorder.close()
        for lane in lanes.values():
            await lane.provider.aclose()
    return lanes


def _seen(lab: Laboratory, response_id: str) -> bool:
    with lab.store.read() as connection:
        return studies.response_seen(connection, response_id)


def _refuse_config_errors(lanes: Mapping[str, Lane]) -> None:
    for name, lane in lanes.items():
        if lane.config_error is not None:
            raise MeasurementRefused(
                f"arm {name!r} was refused after one call ({lane.config_error.kind}: {lane.config_error.detail}); "
                "correct the arm and run the same command again",
                reason="config_error",
            )
