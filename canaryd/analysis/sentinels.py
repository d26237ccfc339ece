"""Sentinels of the tracked arm, judged slot by slot against their own baseline noise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta

from canaryd.analysis.evidence import Evidence
from canaryd.analysis.subject import Subject
from canaryd.records import Grade
from canaryd.stats.sentinel import SentinelBaseline, judge_sentinel
from canaryd.store import read, samples, sentinels
from canaryd.store.rows import Span
from canaryd.store.sentinels import SentinelDay
from canaryd.windows import utc_date


def new_sentinel_days(evidence: Evidence, *, now: datetime, epochs: Sequence[Subject]) -> tuple[SentinelDay, ...]:
    """Return the judgement of every sentinel in every closed slot that has none yet.

    The baseline is in epoch 1 the burst that was taken before day 1, where there is one, else the baseline days of the
    slot's epoch; until there is one a sentinel is warming up.
    """
    subject, connection = evidence.subject, evidence.connection
    name = subject.series.name
    items = [item.item_id for item in read.panel_items(connection, subject.series.panel_digest) if item.sentinel]
    if not items:
        return ()
    judged = sentinels.last_day(connection, name)
    first = subject.series.start_date if judged is None else judged + timedelta(days=1)
    rows: list[SentinelDay] = []
    for slot_date in _dates(first, _last_closed(evidence, now)):
        epoch = next(one for one in reversed(epochs) if one.epoch.first_date <= slot_date)
        rows += _judged(Evidence(connection, epoch), items, slot_date=slot_date)
    return tuple(rows)


def _judged(evidence: Evidence, items: Sequence[str], *, slot_date: date) -> list[SentinelDay]:
    subject = evidence.subject
    params, alpha = subject.prereg.sentinels, subject.prereg.sentinels.alpha(len(items))
    today = _scores(evidence, Span(subject.series.name, subject.tracked, slot_date, slot_date))
    baselines = _baselines(evidence, slot_date=slot_date)
    rows = []
    for item in items:
        baseline = baselines.get(item)
        reading = judge_sentinel(baseline, today[item], alpha=alpha, params=params)
        rows.append(
            SentinelDay(
                subject.series.name,
                slot_date,
                item,
                reading.state,
                baseline_n=baseline.n if baseline else 0,
                baseline_mean=reading.baseline_mean,
                today_mean=reading.today_mean,
                low=reading.low,
                high=reading.high,
            )
        )
    return rows


def _baselines(evidence: Evidence, *, slot_date: date) -> dict[str, SentinelBaseline]:
    subject, connection = evidence.subject, evidence.connection
    if subject.epoch.opened_by is None and (burst := sentinels.bursts(connection, subject.series.name)):
        return {item: SentinelBaseline(each.n, each.total, each.total_sq) for item, each in burst.items()}
    if slot_date <= subject.grid.baseline.last:
        return {}
    scores = _scores(evidence, evidence.span(subject.tracked, 0))
    return {item: SentinelBaseline.of_scores(values) for item, values in scores.items()}


def _scores(evidence: Evidence, span: Span) -> dict[str, list[float]]:
    scores: dict[str, list[float]] = defaultdict(list)
    for sample in samples.samples(evidence.connection, span, sentinels="only"):
        if isinstance(sample.result, Grade):
            scores[sample.key.item_id].append(sample.result.score)
    return scores


def _last_closed(evidence: Evidence, now: datetime) -> date:
    """Return today where the tracked arm completed it, else yesterday."""
    today = utc_date(now)
    runs = read.runs(evidence.connection, evidence.subject.series.name, first=today, last=today)
    tracked = [run for run in runs if run.start.arm == evidence.subject.tracked]
    done = any(run.end is not None and run.end.outcome == "completed" for run in tracked)
    return today if done else today - timedelta(days=1)


def _dates(first: date, last: date) -> Iterator[date]:
    return (first + timedelta(days=n) for n in range((last - first).days + 1))
