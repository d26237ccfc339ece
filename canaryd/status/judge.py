"""The judge in a status: an instrument that moved is said before any number that it touches."""

from __future__ import annotations

from collections.abc import Iterator

from canaryd.fingerprint import JUDGE
from canaryd.status.model import SeriesStatus
from canaryd.wording import interval, points


def judge_banner(series: SeriesStatus) -> str | None:
    """Return what must be said before any number: the judge moved, or is configured otherwise; None where it did not.

    It stands before what is said of the model that is watched, and louder.
    """
    parts = _refused(series)
    if series.judge and series.judge.state == "moved":
        parts.append(f"the judge moved (slot of {series.judge.slot_date}): {series.judge.sentence}")
    if not parts:
        return None
    beside = series.judge is not None and not series.judge.primary
    what, estimates = (" of the judged items", "; no estimate holds an opinion of it") if beside else ("", "")
    return f"REDUCED COMPARABILITY{what}: {'; '.join(parts)}{estimates}"


def _refused(series: SeriesStatus) -> list[str]:
    """Return what differs in the judge's harness, where the latest run was refused for it."""
    found: dict[str, None] = {}
    for run in series.last_runs:
        reason, _, deltas = run.reason.partition(": ")
        if run.outcome == "refused" and reason == "harness_drift":
            found |= dict.fromkeys(delta for delta in deltas.split("; ") if delta.startswith(JUDGE))
    return [f"the judge is another one, so nothing is measured ({', '.join(found)})"] if found else []


def judge_lines(series: SeriesStatus) -> Iterator[str]:
    """Yield the state of a judge that the banner does not name, and what stands beside the estimates of the arms."""
    judge = series.judge
    if judge is not None and judge.state != "moved":
        yield f"judge {judge.identity} {judge.state} in the slot of {judge.slot_date}: {judge.sentence}"
    if series.window is not None and series.window.judged_excluded:
        excluded = series.window.judged_excluded
        yield f"judged items excluded from these figures: {excluded}; an opinion of them, described only:"
        for arm in series.window.arms:
            between = interval(arm.judged_ci_lower, arm.judged_ci_upper)
            yield f"  {arm.arm} delta {points(arm.judged_delta)} {between}".rstrip()
