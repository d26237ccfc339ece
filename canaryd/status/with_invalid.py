"""What analysis would have said with the invalid samples counted: made from the raw rows at each call, never stored.

Unlike the rest of the status this recomputes, so it is imported only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection

from canaryd.analysis import Evidence, decision_of, load_subjects
from canaryd.config import Config
from canaryd.status.model import WithInvalid
from canaryd.store import read
from canaryd.store.engine import open_store


def read_with_invalid(config: Config, names: Iterable[str]) -> tuple[WithInvalid, ...]:
    """Return, for each of the named series, its latest decided window with the invalid samples counted.

    Raises:
        StoreUnavailable: there is no store, or its schema is not current.
        UsageError: a series is not registered.
    """
    with open_store(config.store_url) as store, store.read() as connection:
        return tuple(with_invalid(connection, name) for name in names)


def with_invalid(connection: Connection, name: str) -> WithInvalid:
    """Return the latest decided window of a series with the invalid samples counted.

    Raises:
        UsageError: the series is not registered.
    """
    latest = read.latest_verdict(connection, name)
    if latest is None:
        return WithInvalid(name)
    epoch, index = latest.verdict.epoch, latest.verdict.window_index
    subject = next(one for one in load_subjects(connection, name) if one.epoch.number == epoch)
    evidence = Evidence(connection, subject, include_invalid=True)
    invalid = evidence.invalid_samples(index)
    if not invalid:
        return WithInvalid(name, epoch, index)
    decision = decision_of(evidence, index)
    estimate: Mapping[str, Any] = decision.estimate.to_json()
    lower, upper = estimate.get("ci") or (None, None)
    return WithInvalid(
        name,
        epoch,
        index,
        invalid=invalid,
        verdict=decision.verdict,
        direction=decision.direction,
        reasons=decision.reasons,
        delta=estimate["delta"],
        ci_lower=lower,
        ci_upper=upper,
    )
