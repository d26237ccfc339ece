"""What is printed beside a verdict and decides nothing: tokens, outcomes, headroom, targets, earlier epochs, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from canaryd import target_config
from canaryd.analysis.evidence import Evidence
from canaryd.analysis.subject import Subject
from canaryd.judging import JudgeDay, judge_days, turns
from canaryd.records import JsonValue
from canaryd.stats.attribution import difference_in_differences
from canaryd.stats.cells import Cell, Cells
from canaryd.stats.outcomes import OutcomeCounts, counted_as_wrong, outcome_tests
from canaryd.stats.paired import paired_delta
from canaryd.stats.power import headroom
from canaryd.stats.tokens import TokenCells, token_change
from canaryd.store import harness, observed, read, samples
from canaryd.store.epochs import deviations
from canaryd.store.events import Event, events
from canaryd.store.judges import readings
from canaryd.store.rows import Span, SpanCounts


def beside(evidence: Evidence, index: int, *, earlier: Sequence[Subject] = ()) -> dict[str, JsonValue]:
    """Return what stands beside the verdict of a window: its dates, each arm's figures, earlier epochs, coincidences.

    `earlier` is the series in the epochs before this one: the comparison with their baselines is descriptive.
    """
    subject = evidence.subject
    window = subject.grid.window(index)
    compared = dict.fromkeys([earlier[0].epoch.number, earlier[-1].epoch.number]) if earlier else {}
    return {
        "first": window.first.isoformat(),
        "last": window.last.isoformat(),
        "arms": {arm: _arm(evidence, arm, index=index) for arm in (*subject.arms, *subject.replicas)},
        "replicas": {arm: _replica(evidence, arm, index=index) for arm in subject.replicas},
        "differences": _differences(evidence, index),
        "across_epochs": [_across(evidence, index, earlier=one) for one in earlier if one.epoch.number in compared],
        "coincides_with": coincidences(evidence, index),
        "validity_notes": evidence.validity_notes(index),
        **_excluded(evidence),
    }


def _excluded(evidence: Evidence) -> dict[str, JsonValue]:
    """Return how many sentinels and judged items every figure leaves out; silent where there is none."""
    items = read.panel_items(evidence.connection, evidence.subject.series.panel_digest)
    counts = {
        "sentinels_excluded": sum(item.sentinel for item in items),
        "judged_excluded": len(evidence.subject.judged),
    }
    return {name: count for name, count in counts.items() if count}


def _arm(evidence: Evidence, arm: str, *, index: int) -> dict[str, JsonValue]:
    subject, connection = evidence.subject, evidence.connection
    spans = (evidence.span(arm, 0), evidence.span(arm, index))
    before, here = (_tokens(evidence, span) for span in spans)
    tokens = token_change(before, here, clusters=subject.panel.clusters, params=subject.prereg.tokens)
    counted_before, counted_here = (_answers(samples.span_counts(connection, span)) for span in spans)
    outcomes = outcome_tests(counted_before, counted_here, alpha=subject.prereg.outcome_alpha)
    room = headroom(evidence.cells(spans[0]), params=subject.prereg.headroom)
    return {
        "tokens": tokens.to_json(),
        "outcomes": outcomes.to_json(),
        "headroom": room.to_json() if room else None,
        "counted_as_wrong": _sensitivity(evidence, spans),
        "resolved": _resolved(evidence, spans[1]),
        "configuration": _configuration(evidence, spans),
        **({"judged": _judged(evidence, spans)} if subject.judged else {}),
    }


def _judged(evidence: Evidence, spans: tuple[Span, Span]) -> JsonValue:
    """Return the estimate of the judged items that stand beside: a change of opinions, which declares nothing."""
    subject = evidence.subject
    before, here = (
        Cells(
            Cell(row.item_id, row.slot_date, row.n, row.total, row.total_sq)
            for row in samples.item_day_cells(evidence.connection, span, sentinels="judged")
        )
        for span in spans
    )
    return paired_delta(before, here, clusters=subject.judged, params=subject.prereg.rule.estimate).to_json()


def _replica(evidence: Evidence, arm: str, *, index: int) -> JsonValue:
    """Return the estimate of a replica, which is printed and decides nothing."""
    before, here = (evidence.cells(evidence.span(arm, period)) for period in (0, index))
    return _compared(before, here, subject=evidence.subject)


def _differences(evidence: Evidence, index: int) -> dict[str, JsonValue]:
    """Return the tracked arm's change minus that of each control, in this window alone: no call rests on it."""
    subject, before, here = evidence.subject, evidence.window(0), evidence.window(index)
    return {
        control: difference_in_differences(
            *zip(before.together(control), here.together(control), strict=True),
            clusters=subject.panel.clusters,
            params=subject.prereg.rule.estimate,
        ).to_json()
        for control in subject.controls
    }


def _tokens(evidence: Evidence, span: Span) -> TokenCells:
    return TokenCells(evidence.cells(span, value="output_tokens"), evidence.cells(span, value="log_output_tokens"))


def _answers(counts: SpanCounts) -> OutcomeCounts:
    return OutcomeCounts(counts.scored + sum(counts.outcome_failures.values()), counts.outcome_failures)


def _sensitivity(evidence: Evidence, spans: tuple[Span, Span]) -> JsonValue:
    """Return the estimate with every outcome failure counted as wrong; None where there is none, so nothing differs."""
    failed = [observed.outcome_failures(evidence.connection, span) for span in spans]
    if not any(failed):
        return None
    before, here = (
        counted_as_wrong(evidence.cells(span), failures) for span, failures in zip(spans, failed, strict=True)
    )
    return _compared(before, here, subject=evidence.subject)


def _compared(before: Cells, here: Cells, *, subject: Subject) -> JsonValue:
    estimate = paired_delta(before, here, clusters=subject.panel.clusters, params=subject.prereg.rule.estimate)
    return estimate.to_json()


def _resolved(evidence: Evidence, span: Span) -> dict[str, JsonValue]:
    models = observed.resolved_models(evidence.connection, span)
    return {
        "standing": dict(observed.standings(evidence.connection, span)),
        "models": [*sorted({model for day in models.values() for model in day})],
    }


def _configuration(evidence: Evidence, spans: tuple[Span, Span]) -> dict[str, JsonValue]:
    """Return what differs between the targets that were recorded last in two spans, and what cannot be compared."""
    old, new = (harness.target_on(evidence.connection, span.series, arm=span.arm, last=span.last) for span in spans)
    return {
        "deltas": [str(delta) for delta in target_config.compare(old, new)],
        "unknown": list(target_config.not_comparable(old, new)),
    }


def _across(evidence: Evidence, index: int, *, earlier: Subject) -> dict[str, JsonValue]:
    """Return a window against the baseline of an earlier epoch: described, never declared."""
    baseline, name = earlier.grid.baseline, earlier.series.name
    last = min(baseline.last, earlier.last or baseline.last)
    then = Evidence(evidence.connection, earlier)
    return {
        "epoch": earlier.epoch.number,
        "first": baseline.first.isoformat(),
        "last": last.isoformat(),
        "arms": {
            arm: _compared(
                then.cells(Span(name, arm, baseline.first, last)),
                evidence.cells(evidence.span(arm, index)),
                subject=evidence.subject,
            )
            for arm in evidence.subject.arms
        },
    }


def coincidences(evidence: Evidence, index: int) -> list[JsonValue]:
    """Return the dated events and deviations in a window and the one before it, which a change is declared from."""
    subject = evidence.subject
    first = subject.grid.window(max(index - 1, 1)).first
    last = subject.grid.window(index).last
    name = subject.series.name
    found: list[tuple[date, str, str]] = [
        (event.slot_date, event.kind, event_text(event))
        for event in events(evidence.connection, name, first=first, last=last)
    ]
    found += [
        (note.slot_date, note.kind, _DEVIATIONS[note.kind].format(reason=note.reason))
        for note in deviations(evidence.connection, name)
        if note.kind in _DEVIATIONS and first <= note.slot_date <= last
    ]
    found += [
        (day.reading.slot_date, "judge", f"the judge: {day.sentence}") for day in judge_turns(evidence, last=last)
    ]
    return [{"date": day.isoformat(), "kind": kind, "text": text} for day, kind, text in sorted(found) if day >= first]


def judge_turns(evidence: Evidence, *, last: date) -> tuple[JudgeDay, ...]:
    """Return the slots up to a date in which the judge was first seen to have moved."""
    rule = evidence.subject.prereg.judge
    if rule is None:
        return ()
    days = judge_days(
        readings(evidence.connection, evidence.subject.series.name, last=last), max_anchors_moved=rule.max_anchors_moved
    )
    return turns(days)


_DEVIATIONS: Mapping[str, str] = {
    "noted": "a deviation that was noted: {reason}",
    "equivalent": "an SDK or CLI version that was accepted as equivalent: {reason}",
    "no_canary": "a slot that was measured without the pre-flight task",
}


def event_text(event: Event) -> str:
    """Return an event in words, without its date.

    >>> from datetime import UTC, datetime
    >>> at = datetime(2027, 1, 2, tzinfo=UTC)
    >>> event_text(Event("s", "t", at.date(), "model_roll", {"before": ["m-1"], "after": ["m-2"]}, at))
    't: the model that answered rolled from m-1 to m-2'
    """
    shown = {
        key: ", ".join(map(str, value)) if isinstance(value, list) else value for key, value in event.detail.items()
    }
    return f"{event.arm}: {_EVENTS[event.kind].format(**shown)}"


_EVENTS: Mapping[str, str] = {
    "model_roll": "the model that answered rolled from {before} to {after}",
    "input_tokens": "the input tokens of {items} of {of} items moved (median ratio {median_ratio})",
    "configuration": "the recorded configuration changed ({deltas})",
    "canary_answer": "the pre-flight task was answered wrongly",
}
