"""What is checked of every arm before its first item; an arm that fails is closed with the reason, the others run."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from canaryd import graders, sandbox
from canaryd.errors import CanarydError, ConfigError, CredentialsError
from canaryd.fingerprint import Fingerprint
from canaryd.records import CONFIG_FAILURES, Ask, Failure, RunOutcome
from canaryd.runner.drift import harnesses
from canaryd.runner.execute import Lane, answered, turn
from canaryd.runner.grading import needs_sandbox
from canaryd.runner.harness import arm_fingerprint, judge_components
from canaryd.runner.judge import JudgePlan, open_judge
from canaryd.runner.reports import CANARY, canary_ask
from canaryd.runner.slot import Slot
from canaryd.runner.spending import outlook
from canaryd.runner.trust import clock_problem
from canaryd.runner.validity import CANARY_FAILED, failure_of
from canaryd.sandbox import SandboxUnavailable
from canaryd.target_config import recorded

Check = Literal["key", "arm", "fingerprint", "clock", "budget", "sandbox", "canary", "judge"]
REASONS: Mapping[Check, str] = {
    "key": "credentials",
    "arm": "configuration",
    "fingerprint": "harness_drift",
    "clock": "clock_untrusted",
    "budget": "budget",
    "sandbox": "sandbox_unavailable",
    "canary": CANARY_FAILED,
    "judge": "judge_failed",
}
#: What to do about a check that failed.
CURES: Mapping[Check, str] = {
    "key": "put the key where it is looked for; until then this arm is not measured, and the others are",
    "arm": "mend the arm's table in the configuration; until then this arm is not measured, and the others are",
    "fingerprint": "restore what differs, or begin a new baseline with `canaryd deviation accept --reason TEXT`",
    "clock": "set the machine's clock (a time service keeps it right), then run again",
    "budget": "raise the limit or add the price in the configuration, or wait for the next day or month",
    "canary": "look at what answers at the arm's base_url",
    "judge": "look at [series.judge]: what it grades would fail, and the rest of the day be measured without it",
}
_NOT_COMPARED = "not compared: the sandbox is a part of it and could not be looked at"
#: What to do about a trivial task that failed in a way of which more is known.
CANARY_CURES: Mapping[str, str] = {
    "auth": "check the key that the arm's credential names, and what the key is allowed to do",
    "not_found": "check the arm's model and base_url: there is no such model, or nothing is served at that path",
    "bad_request": "check the arm's params and options: the server does not take the request as it is sent",
    "quota": "the account has nothing left; top it up, or raise its limit",
    "rate_limited": "lower the arm's requests_per_minute or concurrency, or wait as long as the provider asks",
    "overloaded": "look at the provider's own status page, and run again once it answers",
    "server_error": "where the reply is no JSON, check the arm's base_url: a page answers there and no API; else look "
    "at the provider's own status page, and run again once it answers",
    "malformed": "the reply is none that can be graded: check the arm's base_url, and that its params and options ask "
    "for a text and not for a call of a tool",
    "empty": "the model ends without a text: check the arm's params and options, and raise max_tokens where it thinks",
    "refusal": "look at the panel's system prompt: the model refuses even a trivial task under it",
    "content_filtered": "look at the provider's filter and at the panel's system prompt: a trivial task does not pass",
    "replayed": "turn off the cache of the gateway: what it repeats measures nothing",
    "config_mismatch": "check options.config_path, and what the application reports there",
    "connection": "check the arm's base_url, and that something listens there",
    "timeout": "check the arm's base_url, or raise timeout_s where the model needs longer",
    "served_other": "check expect_resolved against the model that answers",
    "truncated": "raise max_tokens: the model spends all of it before it answers",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found of one arm; `problem` is None when the arm passed, `outcome` is how its run then ends.

    `kind` is the failure of a trivial task that did not come back; `advice` is what to do where more is known of the
    problem than the check. One that was not `made` says nothing of the arm, and its note says why.
    """

    check: Check
    arm: str
    problem: str | None = None
    note: str = ""
    outcome: RunOutcome = "refused"
    kind: str = ""
    advice: str = ""
    made: bool = True

    @property
    def reason(self) -> str:
        """The reason that a run which is closed for this carries."""
        return f"{REASONS[self.check]}: {self.problem}"

    @property
    def cure(self) -> str:
        """What to do about the problem."""
        return self.advice or CANARY_CURES.get(self.kind) or CURES[self.check]


@dataclass(slots=True)
class Preflight:
    """What was found of the arms of a slot, and the harness of each."""

    findings: list[Finding] = field(default_factory=list)
    fingerprints: dict[str, Fingerprint] = field(default_factory=dict)

    def problem_of(self, arm: str) -> Finding | None:
        """Return the first check that an arm did not pass, or None."""
        return next((each for each in self.findings if each.arm == arm and each.problem is not None), None)


@asynccontextmanager
async def open_lanes(slot: Slot, arms: Collection[str]) -> AsyncIterator[tuple[dict[str, Lane], list[Finding]]]:
    """Give a lane for each of the named arms that can be asked as configured, and what stands against each other one.

    The providers are closed at the end of the block.
    """
    lanes: dict[str, Lane] = {}
    unasked: list[Finding] = []
    try:
        for arm in slot.config.arms:
            if arm.name in arms:
                try:
                    recorded(arm)  # what cannot be recorded is refused here, before anything is claimed
                    lanes[arm.name] = Lane(arm, slot.build_provider(arm))
                except CredentialsError as error:
                    unasked.append(Finding("key", arm.name, str(error)))
                except ConfigError as error:
                    unasked.append(Finding("arm", arm.name, str(error)))
        yield lanes, unasked
    finally:
        for lane in lanes.values():
            await lane.provider.aclose()


async def preflight(
    slot: Slot, lanes: Mapping[str, Lane], *, asks: Sequence[Ask], canary: bool = True, thorough: bool = False
) -> Preflight:
    """Check the given arms: sandbox, harness, clock and budget, and then one trivial task from end to end.

    The task is only sent where nothing else stands against it, or where `thorough` asks for every check of every arm,
    those without a lane included as far as it needs no provider; then a judge is asked about one of its anchors too.

    Raises:
        ConfigError, CredentialsError: the judge cannot be asked as configured; where `thorough`, that is a finding.
    """
    found = Preflight()
    components, no_sandbox = await asyncio.to_thread(sandbox_state, slot)
    judge: Mapping[str, str] | None = None
    try:
        judge = await judge_state(slot)
    except CanarydError as error:
        if not thorough or slot.judge is None:
            raise
        found.findings.append(Finding("judge", slot.judge.config.identity, str(error)))
    if judge is not None:
        found.fingerprints = _fingerprints(slot, lanes, beside={**components, **judge})
    compared = found.fingerprints if no_sandbox is None else {}
    ahead = outlook(slot, asks, canary=canary)
    for lane in lanes.values():
        lane.spare = ahead.spare
    for name in [arm.name for arm in slot.config.arms] if thorough else lanes:
        found.findings += [
            _sandbox_finding(name, no_sandbox),
            *([_fingerprint_finding(slot, name, now=found.fingerprints[name])] if name in compared else []),
            *([Finding("fingerprint", name, note=_NOT_COMPARED, made=False)] if no_sandbox is not None else []),
            Finding("clock", name, clock_problem(slot.clock, slot.store)),
            Finding("budget", name, ahead.problem),
        ]
    asked = [lane for name, lane in lanes.items() if canary and (thorough or found.problem_of(name) is None)]
    async with asyncio.TaskGroup() as group:
        for lane in asked:
            group.create_task(_canary(slot, lane, found=found))
    if thorough and slot.judge is not None and judge is not None:
        found.findings.append(await _judge_finding(slot, slot.judge))
    return found


async def _judge_finding(slot: Slot, plan: JudgePlan) -> Finding:
    """Ask the judge about its first anchor."""
    provider = slot.build_provider(plan.config.arm)
    judge = open_judge(plan, provider, retry=slot.retry, clock=slot.clock)
    try:
        failure = await judge.probe(plan.anchors[0], canary_ask(slot, plan.config.arm.name))
    finally:
        await provider.aclose()
    return Finding("judge", plan.config.identity, failure.detail if failure else None)


async def arm_fingerprints(slot: Slot, lanes: Mapping[str, Lane]) -> dict[str, Fingerprint]:
    """Return the harness of each arm as it is now.

    Raises:
        SandboxUnavailable: an item needs the sandbox, which is a part of the harness and cannot be looked at.
        ConfigError, CredentialsError: the judge cannot be asked as configured.
    """
    components, no_sandbox = await asyncio.to_thread(sandbox_state, slot)
    if no_sandbox is not None:
        raise no_sandbox
    return _fingerprints(slot, lanes, beside={**components, **await judge_state(slot)})


def _fingerprints(slot: Slot, lanes: Mapping[str, Lane], *, beside: Mapping[str, str]) -> dict[str, Fingerprint]:
    return {
        name: arm_fingerprint(lane.arm, slot.panel, provider=lane.provider, due_minute=slot.due_minute, beside=beside)
        for name, lane in lanes.items()
    }


async def judge_state(slot: Slot) -> Mapping[str, str]:
    """Return the judge's components of the harness, none where no item is judged.

    Raises:
        ConfigError, CredentialsError: it cannot be asked as configured.
    """
    if slot.judge is None:
        return {}
    provider = slot.build_provider(slot.judge.config.arm)
    try:
        return judge_components(slot.judge.config, provider, anchors=slot.judge.anchors_digest)
    finally:
        await provider.aclose()


def sandbox_state(slot: Slot) -> tuple[Mapping[str, str], SandboxUnavailable | None]:
    """Return the components of the sandbox by name, and why it does not work; neither where no item needs it."""
    if not needs_sandbox(slot.panel.items):
        return {}, None
    try:
        result = sandbox.probe(backend=slot.backend, rng=random.SystemRandom())
    except SandboxUnavailable as error:
        return {}, error
    components = sandbox.components(result, backend=slot.backend)
    return {f"sandbox {name}": value for name, value in components.items()}, None


async def _canary(slot: Slot, lane: Lane, *, found: Preflight) -> None:
    """Send the trivial task; a reply must arrive, hold something and get through the grader, and need not be right."""
    name, note = lane.arm.name, ""
    ask = canary_ask(slot, name)
    if why := await turn(ask, lane, clock=slot.clock):
        found.findings.append(Finding("canary", name, why))
        return
    answer, _ = await answered(ask, lane, retry=slot.retry, clock=slot.clock)
    if not isinstance(answer, Failure):
        failure = failure_of(answer, lane.arm)
        if failure is not None and (failure.is_harness or not answer.text.strip()):
            answer = failure
        elif failure is not None:
            note = f"it came back, but as {failure.kind}: {failure.detail}; {CANARY_CURES[failure.kind]}"
        elif lane.arm.expect_resolved is not None and answer.standing == "echo":
            note = (
                "it came back under the name that was asked for, which identifies nothing: expect_resolved holds nobody"
            )
    if isinstance(answer, Failure):
        outcome: RunOutcome = "config_error" if answer.kind in CONFIG_FAILURES else "refused"
        problem = f"{answer.kind}: {answer.detail}"
        found.findings.append(Finding("canary", name, problem, outcome=outcome, kind=answer.kind))
        return
    lane.canary = graders.grade(CANARY, answer.text)
    wrong = "" if lane.canary.passed else "it came back with a wrong answer, which stops nothing"
    found.findings.append(Finding("canary", name, note=note or wrong))


def _sandbox_finding(arm: str, trouble: SandboxUnavailable | None) -> Finding:
    if trouble is None:
        return Finding("sandbox", arm)
    return Finding("sandbox", arm, trouble.problem, advice=trouble.cure)


def _fingerprint_finding(slot: Slot, arm: str, *, now: Fingerprint) -> Finding:
    with slot.store.read() as connection:
        known = harnesses(connection, slot.series.name, epoch=slot.epoch)
    deltas, unknown = known.deltas(arm, now), known.unknown(arm, now)
    note = f"cannot be compared, because withheld: {', '.join(unknown)}" if unknown else ""
    return Finding("fingerprint", arm, "; ".join(map(str, deltas)) or None, note=note)
