"""One pass of the current graders over the stored replies of a series."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime

from canaryd import graders, sandbox
from canaryd.panel import parse
from canaryd.records import Ask, Failure, Grade
from canaryd.runner.grading import Grading, needs_sandbox
from canaryd.store import read, regrades, samples
from canaryd.store.engine import Store
from canaryd.store.regrades import Difference, Regrade
from canaryd.store.rows import Span, StoredSample


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the programs in code replies run."""

    backend: sandbox.Backend
    rng: random.Random


def regrade(store: Store, series: str, *, since: date | None, now: datetime, bench: Bench) -> Regrade:
    """Grade every stored reply of a series (from the slot of `since` on) again, store and return what came of it.

    Replies that failed (refused, cut off, empty) have no grade and are left out; one whose grader failed has its say
    again. A judge's opinion is no grade that could be had again, so judged items are left out too. Nothing that is
    stored changes.

    Raises:
        UsageError: the series is not registered.
        ConfigError: the current graders cannot judge an item of the stored panel.
        MeasurementRefused: the panel has code items and the sandbox does not work.
    """
    with store.read() as connection:
        stored = read.series(connection, series)
        files = read.panel(connection, stored.panel_digest)
    items = parse(files.content, files.system, graders=graders, path=f"panel of series {series}").items
    if needs_sandbox(items):
        sandbox.probe(backend=bench.backend, rng=bench.rng)
    tally = _Tally(Grading({item.item_id: item for item in items}, bench.backend, bench.rng))
    asyncio.run(_grade_all(store, series, since=since, tally=tally))
    done = Regrade(
        series=series,
        at=now,
        since=since,
        graders=tuple(sorted(tally.graders)),
        identical=tally.counts["identical"],
        expired=tally.counts["expired"],
        ungraded=tally.counts["ungraded"],
        differences=tuple(tally.differences),
    )
    regrades.append_regrade(store, done)
    return done


@dataclass(slots=True)
class _Tally:
    """What a pass has found so far; `known` spares grading the same reply to the same item twice."""

    grading: Grading
    counts: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    graders: set[str] = field(default_factory=set)
    known: dict[tuple[str, str | None], Grade | Failure] = field(default_factory=dict)

    def is_judged(self, sample: StoredSample) -> bool:
        """Whether a sample's grade is a judge's opinion."""
        return self.grading.items[sample.key.item_id].is_judged

    async def add(self, sample: StoredSample) -> None:
        """Grade one stored reply again and count it."""
        if sample.text is None:
            self.counts["expired"] += 1
            return
        known = (sample.key.item_id, sample.text_digest)
        new = self.known.get(known) or await self._graded(sample, sample.text)
        self.known[known] = new
        if isinstance(new, Grade):
            self.graders.add(new.grader)
        if _measured(new) == _measured(sample.result):
            self.counts["identical"] += 1
        elif isinstance(new, Failure) and new.kind == "sandbox_error":
            self.counts["ungraded"] += 1
        else:
            self.differences.append(Difference(sample.sample_id, sample.key, old=sample.result, new=new))

    async def _graded(self, sample: StoredSample, text: str) -> Grade | Failure:
        key = sample.key
        ask = Ask(key.series, key.arm, key.slot_date, key.item_id, key.replicate, system="", prompt="")
        new = await self.grading.grade(ask, text)
        if _measured(new) != _measured(sample.result) and needs_sandbox([self.grading.items[key.item_id]]):
            # A busy machine can make a right program run out of time, so a difference must show twice.
            return await self.grading.grade(ask, text)
        return new


async def _grade_all(store: Store, series: str, *, since: date | None, tally: _Tally) -> None:
    for span in _spans(store, series, since=since):
        with store.read() as connection:
            found = samples.samples(connection, span, include_invalid=True)
        again = [sample for sample in found if _has_grade(sample) and not tally.is_judged(sample)]
        await asyncio.gather(*(tally.add(sample) for sample in again))


def _spans(store: Store, series: str, *, since: date | None) -> Iterator[Span]:
    """Yield each arm on each slot date, so that no more than one day of replies is held at a time."""
    with store.read() as connection:
        runs = read.runs(connection, series, first=since)
    for slot_date, arm in sorted({(run.start.slot_date, run.start.arm) for run in runs}):
        yield Span(series, arm, slot_date, slot_date)


def _has_grade(sample: StoredSample) -> bool:
    if isinstance(sample.result, Failure):
        return sample.result.kind == "grader_error" and sample.text_digest is not None
    return sample.text_digest is not None


def _measured(result: Grade | Failure) -> tuple[float, bool, bool] | str:
    """Return what two results of one reply must agree on; how a grader words its detail is its own affair."""
    return result.kind if isinstance(result, Failure) else (result.score, result.answered, result.passed)
