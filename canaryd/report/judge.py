"""The judge in a report: an instrument of its own, held to its anchors every day, and what it says of the arms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from canaryd.judging import JudgeDay, turns
from canaryd.report import words
from canaryd.report.build import SeriesReport
from canaryd.report.document import Fold, Part, Section, Table, Text


def judge_section(report: SeriesReport) -> Section | None:
    """Return how the judge stood to its anchors, and the judged items beside the estimates; None without a judge."""
    if report.prereg.judge is None or not report.judge:
        return None
    newest, rule = report.judge[-1], report.prereg.judge
    enters = "enter every estimate, as registered" if rule.primary else "are opinions and enter no estimate"
    parts: list[Part] = [
        Text(
            f"Judge {newest.reading.identity}; its grades {enters}. It counts as moved when more than "
            f"{rule.max_anchors_moved} of its anchors get another verdict than when the epoch began, or another model "
            "answers for it. Then every number that holds its grades has reduced comparability."
        ),
        *[Text(f"Moved, first seen on {day.reading.slot_date}: {day.sentence}.") for day in turns(report.judge)],
    ]
    if judged := _judged(report):
        parts.append(judged)
    rows = [_row(day) for day in report.judge]
    head = ("slot", "state", "agrees with people on", "anchors with another verdict", "model that answered")
    parts.append(Fold("The judge on its anchors, slot by slot", [Table("The judge on its anchors", head, rows)]))
    return Section("The judge", parts)


def _row(day: JudgeDay) -> tuple[str, ...]:
    reading = day.reading
    return (
        reading.slot_date.isoformat(),
        day.state,
        f"{reading.agreeing} of {len(reading.people)}",
        ", ".join(day.moved) or "none",
        ", ".join(reading.resolved) or "not reported",
    )


def _judged(report: SeriesReport) -> Table | None:
    if not report.verdicts:
        return None
    clauses: Mapping[str, Any] = report.verdicts[-1].verdict.clauses
    if not clauses.get("judged_excluded"):
        return None
    rows = []
    for arm in (curve.arm for curve in report.arms if curve.arm in clauses["arms"]):
        estimate = clauses["arms"][arm]["judged"]
        rows.append((arm, *words.stored_cells(estimate)))
    caption = f"{clauses['judged_excluded']} judged items in the latest window: described, never declared"
    return Table(caption, ("arm", "delta, points", report.interval, "status"), rows)
