"""What happened to an arm in a slot, seen from its replies: a rolled model, longer questions, another configuration."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from statistics import median

from sqlalchemy import Connection

from canaryd import prereg, target_config
from canaryd.records import JsonValue
from canaryd.runner.closing import Books
from canaryd.runner.execute import Lane
from canaryd.runner.reports import Reports
from canaryd.store import harness, observed, read
from canaryd.store.events import Event, EventKind, add_events
from canaryd.store.rows import Span

_MEMORY = timedelta(days=366)


def record_happened(books: Books, lane: Lane, *, slot_date: date, run_id: int, reports: Reports | None) -> None:
    """Store the events of an arm's slot, each at most once; raises Locked when the lease is lost."""
    arm, canary = lane.arm, lane.canary
    with books.store.read() as connection:
        name = books.series.name
        protocol = prereg.parse(read.registration(connection, name), source=f"registration of {name}")
        span = _recent(connection, Span(name, arm.name, slot_date - _MEMORY, slot_date))
        before = harness.target_on(connection, name, arm=arm.name, last=slot_date, before_run=run_id)
        reported = harness.report_on(connection, name, arm=arm.name, last=slot_date, before_run=run_id)
        found: dict[EventKind, Mapping[str, JsonValue] | None] = {
            "model_roll": model_roll(observed.resolved_models(connection, span), slot_date),
            "input_tokens": input_token_shift(
                observed.input_tokens(connection, span), slot_date, tolerance=protocol.tokens.min_change
            ),
            "configuration": _configuration((before, target_config.recorded(arm)), *_reported(reported, reports)),
            "canary_answer": None if canary is None or canary.passed else {"answered": canary.answered},
        }
    at = books.clock.now()
    events = [Event(name, arm.name, slot_date, kind, detail, at) for kind, detail in found.items() if detail]
    if events:
        add_events(books.store, events, lease=books.lease)


def model_roll(models: Mapping[date, Mapping[str, int]], day: date) -> dict[str, JsonValue] | None:
    """Return the reported models that answered on a day and not on the last day before that has any, or None.

    >>> first, second = date(2027, 1, 1), date(2027, 1, 3)
    >>> model_roll({first: {"m-1": 6}, second: {"m-1": 2, "m-2": 4}}, second)
    {'before': ['m-1'], 'after': ['m-1', 'm-2']}
    >>> model_roll({first: {"m-1": 6}, second: {"m-1": 6}}, second) is None
    True
    """
    earlier = max((known for known in models if known < day), default=None)
    if earlier is None or models.get(day, {}).keys() <= models[earlier].keys():
        return None
    return {"before": list(models[earlier]), "after": list(models[day])}


def input_token_shift(
    tokens: Mapping[date, Mapping[str, float]], day: date, *, tolerance: float
) -> dict[str, JsonValue] | None:
    """Return how many items' questions took other input tokens than on the last day before, or None.

    >>> first, second = date(2027, 1, 1), date(2027, 1, 2)
    >>> input_token_shift({first: {"a": 100.0, "b": 50.0}, second: {"a": 130.0, "b": 51.0}}, second, tolerance=0.1)
    {'items': 1, 'of': 2, 'median_ratio': 1.3}
    """
    earlier = max((known for known in tokens if known < day), default=None)
    if earlier is None or day not in tokens:
        return None
    shared = tokens[day].keys() & tokens[earlier].keys()
    ratios = [tokens[day][item] / tokens[earlier][item] for item in sorted(shared)]
    moved = [ratio for ratio in ratios if abs(ratio - 1) > tolerance]
    return {"items": len(moved), "of": len(ratios), "median_ratio": round(median(moved), 4)} if moved else None


_Record = Mapping[str, JsonValue] | None


def _configuration(*pairs: tuple[_Record, _Record]) -> dict[str, JsonValue] | None:
    """Return every difference between records that followed one another, or None."""
    deltas = dict.fromkeys(str(delta) for before, now in pairs for delta in target_config.compare(before, now))
    return {"deltas": list(deltas)} if deltas else None


def _reported(before: _Record, now: Reports | None) -> tuple[tuple[_Record, _Record], ...]:
    """Return what the application reported in the run before and at first, and at first and at last."""
    return () if now is None else ((before, now.first), (now.first, now.last))


def _recent(connection: Connection, span: Span) -> Span:
    """Return the span cut to today and the last slot before it that the arm completed: only those are compared."""
    runs = read.runs(connection, span.series, first=span.first, last=span.last - timedelta(days=1))
    done = [
        run.start.slot_date for run in runs if run.start.arm == span.arm and run.end and run.end.outcome == "completed"
    ]
    return Span(span.series, span.arm, max(done, default=span.last), span.last)
