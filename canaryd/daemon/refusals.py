"""What stands in the way of a slot, by the runs of it that were refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from canaryd.records import Run
from canaryd.status.remedies import blocked_by


def refusals(runs: Sequence[Run], slot_date: date) -> dict[str, tuple[str, ...]]:
    """Return the arms whose latest run of a slot was refused, by the contract's word for why; `runs` by attempt."""
    latest = {run.start.arm: run for run in runs if run.start.slot_date == slot_date}
    found: dict[str, tuple[str, ...]] = {}
    for arm, run in sorted(latest.items()):
        word = None if run.end is None else blocked_by(run.end.outcome, run.end.reason)
        if word is not None:
            found[word] = (*found.get(word, ()), arm)
    return found


def blocked_line(refused: Mapping[str, Sequence[str]]) -> str:
    """Return the refusals of a slot for a line of status.

    >>> blocked_line({"budget": ["control", "tracked"]})
    'blocked: budget (control, tracked)'
    """
    return "blocked: " + ", ".join(f"{word} ({', '.join(arms)})" for word, arms in refused.items())
