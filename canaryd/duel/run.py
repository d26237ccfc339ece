"""Running a duel: what is owed is retrieved, judged in both orders and recorded as it lands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from canaryd.config import Retry
from canaryd.duel.judge import RUBRIC, Judgement, parse_judgement, prompt_of
from canaryd.duel.model import (
    SIDES,
    Entry,
    Judged,
    Question,
    Retrievals,
    Side,
    SubstrateFault,
    Unjudged,
)
from canaryd.duel.pairing import Owed, Turn, cut, in_order
from canaryd.duel.project import Appender
from canaryd.duel.record import to_line
from canaryd.duel.registration import Duel
from canaryd.duel.substrates import Substrate, SubstrateError
from canaryd.errors import MeasurementRefused
from canaryd.judging import ASKED_AT_MOST, JudgeConfig
from canaryd.providers.base import Provider, ProviderError, failure_kind
from canaryd.records import OUTCOME_FAILURES, Ask, Failure, Reply
from canaryd.runner.calls import call, retried
from canaryd.runner.clock import Clock
from canaryd.windows import utc_date


@dataclass(slots=True)
class Budget:
    """The judge calls that a duel may still make."""

    left: int

    def spend(self) -> None:
        """Count one call.

        Raises:
            MeasurementRefused: none is left; what is recorded stays.
        """
        if self.left < 1:
            raise MeasurementRefused(
                "budget.max_calls of the duel is used up, so it stops here; what is recorded stays; register a copy of "
                "the duel with room for calls that are made again",
                reason="budget",
            )
        self.left -= 1


@dataclass(frozen=True, slots=True)
class Bench:
    """What the judgements of a run share: judges by identity, substrates by side, and where entries go."""

    duel: Duel
    providers: Mapping[str, Provider]
    substrates: Mapping[Side, Substrate]
    record: Appender
    budget: Budget
    retry: Retry
    clock: Clock


async def run_owed(left: list[Owed], retrieved: Mapping[str, Retrievals], *, bench: Bench) -> None:
    """Judge what is owed, the first question alone, then as many at a time as the judges' concurrency allows.

    Raises:
        MeasurementRefused: a judge could not be asked, or the budget is used up; what is recorded stays.
    """
    judges = {judge.identity: judge for judge in bench.duel.plan.judges}
    free = asyncio.Semaphore(min(judge.arm.concurrency for judge in judges.values()))

    async def _one(each: Owed) -> None:
        async with free:
            await _question(each, retrieved.get(each.question.id), bench=bench, judges=judges)

    if not left:
        return
    await _one(left[0])
    try:
        async with asyncio.TaskGroup() as group:
            for each in left[1:]:
                group.create_task(_one(each))
    except ExceptionGroup as failed:
        refused, others = failed.split(MeasurementRefused)
        if refused is None or others is not None:
            raise
        raise refused.exceptions[0] from None


async def _question(
    each: Owed,
    known: Retrievals | None,
    *,
    bench: Bench,
    judges: Mapping[str, JudgeConfig],
) -> None:
    retrievals = known or await _retrieve(each.question, bench)
    if isinstance(retrievals, SubstrateFault):
        _keep(retrievals, bench)
        return
    for turn in each.turns:
        bout = Bout(each.question, retrievals, turn, judges[turn.judge])
        _keep(await _judge(bout, bench), bench)


@dataclass(frozen=True, slots=True)
class Bout:
    """One judgement to be made."""

    question: Question
    retrievals: Retrievals
    turn: Turn
    judge: JudgeConfig


async def _retrieve(question: Question, bench: Bench) -> Retrievals | SubstrateFault:
    plan = bench.duel.plan
    texts = []
    for side, config in zip(SIDES, plan.substrates, strict=True):
        try:
            texts.append(cut(await bench.substrates[side].retrieve(question.query), tokens=plan.retrieval_tokens))
        except SubstrateError as error:
            return SubstrateFault(question.id, question.family, side, config.id, str(error))
    return Retrievals(*texts)


async def _judge(bout: Bout, bench: Bench) -> Judged | Unjudged:
    begun_s = bench.clock.monotonic_s()
    costs: list[float | None] = []
    reason = ""
    for _ in range(ASKED_AT_MOST):
        reply = await _ask(bout, bench)
        if isinstance(reply, Failure):
            reason = reply.kind
            costs.append(None)
            continue
        costs.append(cost_usd(reply, bout.judge))
        judgement = None if failure_kind(reply) else parse_judgement(reply.text)
        if judgement is not None:
            elapsed_ms = round(1000 * (bench.clock.monotonic_s() - begun_s))
            return _judged(bout, bench.duel, judgement=judgement, reply=reply, figures=(elapsed_ms, _total(costs)))
        reason = failure_kind(reply) or "the answer is not of the asked form"
    a, b = bench.duel.plan.substrates
    return Unjudged(
        question_id=bout.question.id,
        family=bout.question.family,
        judge=bout.turn.judge,
        ordering=bout.turn.ordering,
        substrate_a_id=a.id,
        substrate_b_id=b.id,
        retrievals=bout.retrievals,
        reason=f"{reason}, {ASKED_AT_MOST} times",
    )


def _judged(bout: Bout, duel: Duel, *, judgement: Judgement, reply: Reply, figures: tuple[int, float | None]) -> Judged:
    a, b = duel.plan.substrates
    label_a, label_b = judgement.labels_of(bout.turn.ordering)
    return Judged(
        question_id=bout.question.id,
        family=bout.question.family,
        judge=bout.turn.judge,
        ordering=bout.turn.ordering,
        substrate_a_id=a.id,
        substrate_b_id=b.id,
        retrievals=bout.retrievals,
        winner=judgement.winner_of(bout.turn.ordering),
        label_a=label_a,
        label_b=label_b,
        rationale=judgement.rationale,
        elapsed_ms=figures[0],
        cost_usd_estimate=figures[1],
        resolved_model=reply.resolved_model,
    )


def cost_usd(reply: Reply, judge: JudgeConfig) -> float | None:
    """Return what a reply cost at the registered prices, or None where prices or token counts are not known."""
    prices = judge.usd_per_million
    if not prices or reply.input_tokens is None or reply.output_tokens is None:
        return None
    return (prices["input"] * reply.input_tokens + prices["output"] * reply.output_tokens) / 1_000_000


def _total(costs: Sequence[float | None]) -> float | None:
    """Return the sum, or None where a call's cost is not known."""
    known = [cost for cost in costs if cost is not None]
    return round(sum(known), 9) if len(known) == len(costs) else None


async def _ask(bout: Bout, bench: Bench) -> Reply | Failure:
    ask = Ask(
        series=bench.duel.plan.name,
        arm=bout.judge.arm.name,
        slot_date=utc_date(bench.clock.now()),
        item_id=bout.question.id,
        replicate=0 if bout.turn.ordering == "a_first" else 1,
        system=RUBRIC,
        prompt=prompt_of(bout.question.query, in_order(bout.retrievals, bout.turn.ordering)),
    )

    async def once() -> Reply:
        bench.budget.spend()
        return await call.get()(ask, bench.providers[bout.turn.judge])

    answer, _ = await retried(ask, once, policy=bench.retry, clock=bench.clock)
    if not isinstance(answer, ProviderError):
        return answer
    if answer.kind in OUTCOME_FAILURES:
        return Failure(answer.kind, answer.detail)
    raise MeasurementRefused(
        f"judge {bout.turn.judge} could not be asked ({answer}), so the duel stops here; what is recorded stays, and "
        "the same command goes on from there",
        reason="judge_unreachable",
    )


def _keep(entry: Entry, bench: Bench) -> None:
    bench.record.append(to_line(entry, duel=bench.duel.digest))
