"""What analysis would have said with the invalid samples counted: made from the raw rows at each call, never stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import Connection

from canaryd.analysis.decide import decision_of
from canaryd.analysis.evidence import Evidence
from canaryd.analysis.subject import Subject, load_subjects
from canaryd.records import JsonValue, Verdict
from canaryd.store import read


@dataclass(frozen=True, slots=True)
class WithInvalid:
    """What the rule says of a decided window of a series with the invalid samples counted: no verdict, never stored.

    `invalid` is how many samples of the window, the one before it and the baseline are invalid, by reason. Where there
    is none the verdict is the stored one and is not made again: every field after it is then empty, as it is, with
    `window`, before the first decided window.
    """

    series: str
    epoch: int | None = None
    window: int | None = None
    invalid: Mapping[str, int] = field(default_factory=dict)
    verdict: str | None = None
    direction: str | None = None
    attribution: str | None = None
    reasons: tuple[str, ...] = ()
    delta: float | None = None
    ci_lower: float | None = None
    ci_upper: float | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return {**asdict(self), "reasons": list(self.reasons)}


def with_invalid(connection: Connection, name: str) -> WithInvalid:
    """Return the latest decided window of a series with the invalid samples counted.

    Raises:
        UsageError: the series is not registered.
    """
    latest = read.latest_verdict(connection, name)
    subjects = load_subjects(connection, name)
    return WithInvalid(name) if latest is None else _of(connection, subjects, stored=latest.verdict)


def windows_with_invalid(connection: Connection, name: str) -> tuple[WithInvalid, ...]:
    """Return every decided window of a series that rests on invalid samples, with those counted.

    Raises:
        UsageError: the series is not registered.
    """
    subjects = load_subjects(connection, name)
    found = (_of(connection, subjects, stored=stored.verdict) for stored in read.verdicts(connection, name))
    return tuple(one for one in found if one.invalid)


def _of(connection: Connection, subjects: tuple[Subject, ...], *, stored: Verdict) -> WithInvalid:
    subject = next(one for one in subjects if one.epoch.number == stored.epoch)
    evidence = Evidence(connection, subject, include_invalid=True)
    invalid = evidence.invalid_samples(stored.window_index)
    if not invalid:
        return WithInvalid(stored.series, stored.epoch, stored.window_index)
    decision = decision_of(evidence, stored.window_index)
    estimate: Mapping[str, Any] = decision.estimate.to_json()
    lower, upper = estimate.get("ci") or (None, None)
    return WithInvalid(
        stored.series,
        stored.epoch,
        stored.window_index,
        invalid=invalid,
        verdict=decision.verdict,
        direction=decision.direction,
        attribution=decision.attribution,
        reasons=decision.reasons,
        delta=estimate["delta"],
        ci_lower=lower,
        ci_upper=upper,
    )
