"""Deciding every window that has ended, and carrying the early warning and the sentinels on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from canaryd.analysis.alarms import settle_alarm, store_verdict
from canaryd.analysis.beside import beside
from canaryd.analysis.evidence import Evidence
from canaryd.analysis.sentinels import new_sentinel_days
from canaryd.analysis.subject import Subject, load_subjects
from canaryd.records import EarlyWarningDay, Verdict
from canaryd.stats.early_warning import watch
from canaryd.stats.rule import Decision, Reference, decide_window
from canaryd.store import read, sentinels, write
from canaryd.store.engine import Store
from canaryd.store.lease import Lease


def analyse(store: Store, name: str, *, lease: Lease, now: datetime) -> tuple[Verdict, ...]:
    """Decide every window that has ended and has no verdict, and carry the early warning on; return the new verdicts.

    A window is decided once its last day is over and its slots are closed. It is decided from the baseline of its
    epoch, itself and the window before it alone; a window that the end of its epoch cut off is never decided. Where
    something was taken out of the analysis since, a new verdict supersedes the old one.

    Raises:
        Locked: the lease is lost.
    """
    with store.read() as connection:
        subjects = load_subjects(connection, name)
        known = {(each.verdict.epoch, each.verdict.window_index): each for each in read.verdicts(connection, name)}
        verdicts = []
        for place, subject in enumerate(subjects):
            evidence = Evidence(connection, subject)
            for index in subject.ended_windows(now):
                stored = known.get((subject.epoch.number, index))
                if evidence.is_closed(index) if stored is None else _is_outdated(evidence, stored.verdict):
                    verdict = verdict_of(evidence, index=index, now=now, earlier=subjects[:place])
                    verdicts.append(replace(verdict, supersedes=stored.verdict_id if stored else None))
        warned = _new_early_warnings(Evidence(connection, subjects[-1]), now=now, epochs=subjects)
        watched = new_sentinel_days(Evidence(connection, subjects[-1]), now=now, epochs=subjects)
    if warned:
        write.append_early_warning(store, warned, lease=lease)
    if watched:
        sentinels.add_days(store, watched, lease=lease)
    for verdict in verdicts:
        store_verdict(store, verdict, lease=lease)
    settle_alarm(store, name, lease=lease, now=now)
    return tuple(verdicts)


def _is_outdated(evidence: Evidence, verdict: Verdict) -> bool:
    """Whether something that a verdict rests on was taken out of the analysis after it was decided."""
    return verdict.clauses.get("validity_notes", 0) != evidence.validity_notes(verdict.window_index)


def decision_of(evidence: Evidence, index: int) -> Decision:
    """Return what the registered rule says of a window, from the samples of it, the one before it and the baseline.

    It is all of a verdict but what stands beside it.
    """
    subject = evidence.subject
    previous = evidence.window(index - 1) if index > 1 else None
    reference = Reference(evidence.window(0), subject.panel, subject.prereg.rule)
    return decide_window(evidence.window(index), previous, against=reference)


def verdict_of(evidence: Evidence, *, index: int, now: datetime, earlier: Sequence[Subject] = ()) -> Verdict:
    """Return the verdict on one window, recomputed from the samples of it, the window before it and the baseline."""
    subject, decision = evidence.subject, decision_of(evidence, index)
    return Verdict(
        series=subject.series.name,
        epoch=subject.epoch.number,
        window_index=index,
        kind=decision.verdict,
        direction=decision.direction,
        attribution=decision.attribution,
        reasons=decision.reasons,
        decided_at=now,
        panel_digest=subject.series.panel_digest,
        registration_digest=subject.series.registration_digest,
        clauses={**decision.clauses, **beside(evidence, index, earlier=earlier)},
    )


def _new_early_warnings(evidence: Evidence, *, now: datetime, epochs: Sequence[Subject]) -> tuple[EarlyWarningDay, ...]:
    """Return the steps of every registered stream that are not stored yet, up to the last closed day.

    Every epoch begins fresh segments; the numbering, and so the bound on false alarms, goes on over the whole series.
    """
    params, series = evidence.subject.prereg.early_warning, evidence.subject.series
    last = evidence.last_closed_day(now)
    rows: list[EarlyWarningDay] = []
    for stream in params.streams:
        stored = read.early_warnings(evidence.connection, series.name, stream=stream, newest_segment=True)
        table = evidence.day_table(stream, first=stored[0].slot_date if stored else series.start_date, last=last)
        if table is not None:
            fresh = [epoch.epoch.first_date for epoch in epochs[1:]]
            rows += watch(table, series=series.name, stream=stream, params=params, fresh_starts=fresh, stored=stored)
    return tuple(rows)
