"""Which verdicts hang on the version of a grader: what moved then is the format of the answers, not their content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection

from canaryd.analysis import Evidence, load_subjects, verdict_of
from canaryd.records import Failure, Grade
from canaryd.stats.cells import Cell, Cells
from canaryd.store import read, regrades, samples
from canaryd.store.regrades import Difference, Regrade
from canaryd.store.rows import CellValue, Span

#: The cells of scores as re-graded, by arm and slot date, of the days on which a grade differs.
RegradedDays = Mapping[tuple[str, date], Cells]


@dataclass(frozen=True)
class RegradedEvidence(Evidence):
    """The evidence of a series with the scores of a later pass of grading; all else is as it was measured."""

    regraded: RegradedDays

    def cells(self, span: Span, *, value: CellValue = "score") -> Cells:
        """Return the cells of one arm in a span, scores as re-graded."""
        stored = super().cells(span, value=value)
        if value != "score":
            return stored
        rows: list[Cell] = [cell for cell in stored if (span.arm, cell.day) not in self.regraded]
        for (arm, day), cells in self.regraded.items():
            if arm == span.arm and span.first <= day <= span.last:
                rows += cells
        return Cells(rows)


def format_moves(connection: Connection, series: str) -> tuple[str, ...]:
    """Return a sentence for each decided window in which a change exists only under one of two grader versions.

    The verdicts in force are decided once more from the scores of the latest pass over all replies of the series.
    Without such a pass, or without a difference in it, there is nothing to say.

    Raises:
        UsageError: the series is not registered.
    """
    done = regrades.latest_whole(connection, series)
    if done is None or not done.differences:
        return ()
    return tuple(_sentences(connection, done, regraded=regraded_days(connection, done.differences)))


def regraded_days(connection: Connection, differences: Sequence[Difference]) -> RegradedDays:
    """Return the cells of each arm and day on which a grade differs, with the new grades; a failure has no score."""
    new = {each.sample_id: each.new for each in differences}
    days: dict[tuple[str, date], Cells] = {}
    for key in {(each.key.series, each.key.arm, each.key.slot_date) for each in differences}:
        series, arm, day = key
        found = samples.samples(connection, Span(series, arm, day, day), sentinels="exclude")
        results = [(sample.key.item_id, new.get(sample.sample_id, sample.result)) for sample in found]
        days[arm, day] = Cells.from_samples((item, day, one.score) for item, one in results if isinstance(one, Grade))
    return days


def _sentences(connection: Connection, done: Regrade, *, regraded: RegradedDays) -> Iterator[str]:
    subjects = {subject.epoch.number: subject for subject in load_subjects(connection, done.series)}
    old, new = (_graders([getattr(each, side) for each in done.differences]) for side in ("old", "new"))
    kept = f" ({done.expired} replies whose text has expired keep their grade)" if done.expired else ""
    for stored in read.verdicts(connection, done.series):
        verdict = stored.verdict
        evidence = RegradedEvidence(connection, subjects[verdict.epoch], regraded)
        again = verdict_of(evidence, index=verdict.window_index, now=verdict.decided_at)
        if {verdict.kind, again.kind} != {"change", "no_change_detected"}:
            continue
        under, other = (old, new) if verdict.kind == "change" else (new, old)
        moved = "drop" if (verdict.direction or again.direction) == "down" else "rise"
        yield (
            f"window {verdict.window_index}: the {moved} exists only as {under} grades; as {other} grades the same "
            f"replies there is no change: the format moved, not the content{kept}"
        )


def _graders(results: Sequence[Grade | Failure]) -> str:
    """Return the names and versions of the graders behind results."""
    return " and ".join(sorted({one.grader for one in results if isinstance(one, Grade)})) or "no grader"
