"""One run of a registered duel, from its files to its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from canaryd.config import Retry
from canaryd.duel.model import SIDES, Question, Retrievals, Side
from canaryd.duel.pairing import calls_of, cut, owed
from canaryd.duel.project import DuelProject, appending, read_record, require_registered
from canaryd.duel.record import retrievals_of
from canaryd.duel.run import Bench, Budget, run_owed
from canaryd.duel.substrates import Substrate, build_substrate
from canaryd.providers import build_provider
from canaryd.providers.base import Provider, Surroundings
from canaryd.providers.credentials import find_secret
from canaryd.providers.secret import Secret
from canaryd.runner.clock import Clock

#: The family under which anchors stand in their own record.
ANCHOR_FAMILY = "anchor"


@dataclass(frozen=True, slots=True)
class _Stage:
    """A record with the questions that it owes; what was retrieved for an anchor is recorded in it already."""

    path: Path
    questions: Sequence[Question]
    retrieved: Mapping[str, Retrievals]


async def run_duel(project: DuelProject, *, env: Mapping[str, str], clock: Clock, retry: Retry) -> None:
    """Judge what the duel still owes, anchors first; a duel that is complete makes no call.

    Raises:
        UsageError: the duel is not registered.
        MeasurementRefused: a file was edited since, a judge cannot be asked, or the budget is used up.
        Locked: another process runs this duel.
        ConfigError: a judge's arm is refused by its provider.
        CredentialsError: a key is missing.
    """
    require_registered(project)
    duel = project.duel

    stages = (_anchors(project), _Stage(project.record, duel.questions, {}))
    async with AsyncExitStack() as held:
        records = [held.enter_context(appending(stage.path)) for stage in stages]
        found = [read_record(stage.path, duel=duel.digest) for stage in stages]
        budget = Budget(duel.plan.max_calls - sum(calls_of(entry) for entries in found for entry in entries))
        providers, substrates = _open(project, held, env=env)
        for stage, record, entries in zip(stages, records, found, strict=True):
            left = owed(stage.questions, entries, judges=[judge.identity for judge in duel.plan.judges])
            bench = Bench(duel, providers, substrates, record, budget, retry, clock)
            await run_owed(left, {**stage.retrieved, **retrievals_of(entries)}, bench=bench)


def _open(
    project: DuelProject, held: AsyncExitStack, *, env: Mapping[str, str]
) -> tuple[dict[str, Provider], dict[Side, Substrate]]:
    plan = project.duel.plan

    def secret_of(name: str | None) -> Secret | None:
        return find_secret(name, project.credentials, env=env) if name else None

    providers: dict[str, Provider] = {}
    substrates: dict[Side, Substrate] = {}
    for judge in plan.judges:
        surroundings = Surroundings(env=env, secret=secret_of(judge.arm.credential))
        providers[judge.identity] = provider = build_provider(judge.arm, surroundings)
        held.push_async_callback(provider.aclose)
    for side, config in zip(SIDES, plan.substrates, strict=True):
        substrates[side] = build_substrate(config, folder=project.folder, secret=secret_of(config.credential))
        held.push_async_callback(substrates[side].aclose)
    return providers, substrates


def _anchors(project: DuelProject) -> _Stage:
    tokens, anchors = project.duel.plan.retrieval_tokens, project.duel.anchors
    return _Stage(
        path=project.anchor_record,
        questions=[Question(anchor.id, ANCHOR_FAMILY, anchor.query) for anchor in anchors],
        retrieved={
            one.id: Retrievals(cut(one.retrievals.a, tokens=tokens), cut(one.retrievals.b, tokens=tokens))
            for one in anchors
        },
    )
