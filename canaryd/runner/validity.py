"""What makes a reply no measurement, and what makes a whole run invalid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from canaryd.providers.base import failure_kind
from canaryd.records import TRANSPORT_FAILURES, Arm, Failure, Grade, Reply

#: Why a run is invalid that got no further than its trivial task.
CANARY_FAILED = "canary_failed"
#: What each reason that makes the whole of a slot invalid says.
SET_ASIDE = {
    "zero_outputs": "not one question was answered",
    "zero_pass_all": "not one answer was right, which is a dead harness or a collapse: a person must look",
    "config_mismatch": "more than half of the answers came with another configuration",
    "harness_error": "more than half of the samples ended in a fault of the harness",
    "infra_outage": "more than half of the samples never arrived",
}


def failure_of(reply: Reply, arm: Arm) -> Failure | None:
    """Return why a reply gives nothing to grade, or None when it can be graded.

    Another model than the arm expects is `served_other`, whatever it said: its refusal says nothing of the one that was
    asked for. What names no model is what `providers.base.failure_kind` says, and `served_other` where that is nothing.

    >>> arm = Arm("t", "tracked", "openai", "m", expect_resolved="m-1")
    >>> replies = Reply("4", "refusal", "m-2"), Reply("", "refusal"), Reply("4", "stop")
    >>> [failure_of(reply, arm).kind for reply in replies]
    ['served_other', 'refusal', 'served_other']
    >>> failure_of(Reply(" ", "stop", resolved_model="m-1"), arm).kind
    'empty'
    """
    served = reply.resolved_model
    kind = failure_kind(reply)
    if arm.expect_resolved not in (None, served) and (served is not None or kind is None):
        return Failure("served_other", f"asked for {arm.expect_resolved}, {served or 'nobody'} answered")
    return Failure(kind, f"the reply ended with {reply.stop}") if kind else None


def run_invalid_reason(results: Sequence[Grade | Failure]) -> str | None:
    """Return the reason that makes every row of a run invalid, or None.

    zero_outputs: nothing was answered; infra_outage and harness_error: more than half of the samples ended so;
    zero_pass_all: at least one grade and not one passed (a dead harness or a collapse: a person must look).

    >>> run_invalid_reason([Failure("timeout"), Failure("timeout"), Grade(1.0, True, True)])
    'infra_outage'
    """
    if not results:
        return "zero_outputs"
    kinds = [result.kind for result in results if isinstance(result, Failure)]
    half = len(results) / 2
    if _count(kinds, {"config_mismatch"}) > half:
        return "config_mismatch"
    if _count(kinds, {"internal", "grader_error", "sandbox_error"}) > half:
        return "harness_error"
    if _count(kinds, TRANSPORT_FAILURES) > half:
        return "infra_outage"
    grades = [result for result in results if isinstance(result, Grade)]
    if not grades:
        return "zero_outputs"
    return None if any(grade.passed for grade in grades) else "zero_pass_all"


def _count(kinds: Iterable[str], wanted: set[str] | frozenset[str]) -> int:
    return sum(kind in wanted for kind in kinds)
