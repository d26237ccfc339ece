"""The values of one snapshot while they are collected, and frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from canaryd.metrics.catalogue import BY_NAME, STATES

Labels = tuple[str, ...]


class Values:
    """Collects values by metric and labels; a value that is not known is left out, and NaN is refused."""

    def __init__(self) -> None:
        self.by_metric: dict[str, dict[Labels, float]] = {}

    def add(self, metric: str, value: float | datetime | None, *labels: str) -> None:
        """Add one value (a time as Unix seconds); None adds nothing.

        Raises:
            ValueError: the value is no finite number, or the labels are not as many as the metric's.
        """
        if value is None:
            return
        number = value.timestamp() if isinstance(value, datetime) else float(value)
        expected = BY_NAME[metric].labels
        if not math.isfinite(number) or len(labels) != len(expected):
            raise ValueError(f"{metric}{labels}: {number} under labels {expected}")
        self.by_metric.setdefault(metric, {})[labels] = number

    def add_state(self, metric: str, state: str, *labels: str) -> None:
        """Add every state of a state set, 1 for the current one.

        Raises:
            ValueError: there is no such state.
        """
        if state not in STATES[metric]:
            raise ValueError(f"{metric} has no state {state!r}")
        for each in STATES[metric]:
            self.add(metric, each == state, *labels, each)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All values of the store at one moment, by metric and labels; `taken_s` is Unix time, `duration_s` its cost."""

    values: Mapping[str, Mapping[Labels, float]]
    taken_s: float
    duration_s: float


def with_blocked(snapshot: Snapshot, reasons: Mapping[str, str]) -> Snapshot:
    """Return the snapshot with every arm of the given series blocked, for what only the process knows.

    `reasons` maps a series to its reason; what the store says of other reasons stays.
    """
    if not reasons:
        return snapshot
    blocked = {
        labels: float(value or labels[-1] == reasons.get(labels[0]))
        for labels, value in snapshot.values.get("run_blocked", {}).items()
    }
    return replace(snapshot, values={**snapshot.values, "run_blocked": blocked})
