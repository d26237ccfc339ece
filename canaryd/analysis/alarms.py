"""The alarm state of a series: what a verdict does to it, and what an epoch does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from canaryd.records import Alarm, AlarmState, Verdict
from canaryd.runner.carried import carried
from canaryd.store import read, write
from canaryd.store.engine import Store
from canaryd.store.epochs import deviations, epochs
from canaryd.store.lease import Lease

_CHANGE_STATES: Mapping[tuple[str, str | None], AlarmState] = {
    ("model", "down"): "regression",
    ("model", "up"): "improvement",
    ("platform", "down"): "platform_change",
    ("platform", "up"): "platform_change",
    ("unattributed", "down"): "unattributed_regression",
    ("unattributed", "up"): "unattributed_improvement",
}


def alarm_state(verdict: Verdict) -> AlarmState | None:
    """Return the alarm state that a verdict puts its series in, or None when it leaves the state as it is.

    >>> from datetime import UTC
    >>> base = dict(series="s", epoch=1, window_index=1, reasons=(), decided_at=datetime(2027, 1, 1, tzinfo=UTC),
    ...             panel_digest="p", registration_digest="r", clauses={})
    >>> alarm_state(Verdict(kind="change", direction="down", attribution="model", **base))
    'regression'
    """
    if verdict.kind == "change":
        return _CHANGE_STATES[verdict.attribution or "unattributed", verdict.direction]
    states: dict[str, AlarmState] = {"no_change_detected": "ok", "not_evaluable": "not_evaluable"}
    return states.get(verdict.kind)


def store_verdict(store: Store, verdict: Verdict, *, lease: Lease) -> None:
    """Store a verdict, and the transition that it causes.

    A verdict that supersedes one of an older window causes none, and a change that an epoch carried over is not ended.

    Raises:
        Locked: the lease is lost.
    """
    verdict_id = write.append_verdict(store, verdict, lease=lease)
    with store.read() as connection:
        transitions = read.alarms(connection, verdict.series)
        latest = read.latest_verdict(connection, verdict.series)
    state = alarm_state(verdict)
    if state is None or latest is None or latest.verdict_id != verdict_id:
        return
    if verdict.kind != "change" and _is_carried(store, verdict.series):
        return
    if not transitions or transitions[-1].state != state:
        write.append_alarm(store, Alarm(verdict.series, state, verdict.decided_at, verdict_id), lease=lease)


def settle_alarm(store: Store, name: str, *, lease: Lease, now: datetime) -> None:
    """Let a state that belongs to an earlier epoch go, unless it is a change that nobody has acknowledged.

    Raises:
        Locked: the lease is lost.
    """
    with store.read() as connection:
        transitions = read.alarms(connection, name)
        current = epochs(connection, read.series(connection, name))[-1].number
        latest = transitions[-1] if transitions else None
        if latest is None or latest.verdict_id is None:
            return
        if read.epoch_of_verdict(connection, latest.verdict_id) == current:
            return
    if not _is_carried(store, name):
        write.append_alarm(store, Alarm(name, "warming_up", now, None), lease=lease)


def _is_carried(store: Store, name: str) -> bool:
    with store.read() as connection:
        known = epochs(connection, read.series(connection, name))
        return carried(read.last_verdicts(connection, name), known, deviations=deviations(connection, name)) is not None
