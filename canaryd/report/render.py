"""Reading a series into a report, and writing the report's files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from sqlalchemy import Connection

from canaryd import prereg as registration
from canaryd.analysis.beside import event_text
from canaryd.analysis.with_invalid import windows_with_invalid
from canaryd.judging import JudgeDay, judge_days
from canaryd.prereg import Prereg
from canaryd.records import EarlyWarningDay
from canaryd.regrade.verdicts import format_moves
from canaryd.report.accounting import read_accounts
from canaryd.report.build import Decided, Event, SeriesReport, build_curve, build_events
from canaryd.report.document import Document, Section
from canaryd.report.judge import judge_section
from canaryd.report.limits import accounting_section, limits_section, people_section, registration_section
from canaryd.report.markdown import as_markdown
from canaryd.report.page import as_page
from canaryd.report.places import dates_section, places_section
from canaryd.report.plots import series_svg
from canaryd.report.verdicts import beside_section, curves_section, verdict_section, with_invalid_section
from canaryd.report.where import read_where
from canaryd.stats.params import RuleParams
from canaryd.store import epochs, ledger, read, samples, studies
from canaryd.store.engine import Store
from canaryd.store.events import events
from canaryd.store.judges import readings
from canaryd.store.notes import days_set_aside, set_aside_by_hand
from canaryd.store.rows import Series, Span, StoredVerdict
from canaryd.windows import Grid

_SECTIONS: tuple[Callable[[SeriesReport], Section | None], ...] = (
    verdict_section,
    with_invalid_section,
    judge_section,
    curves_section,
    dates_section,
    places_section,
    beside_section,
    limits_section,
    people_section,
    accounting_section,
    registration_section,
)


def write_report(
    store: Store, series: str, *, headline: str, folder: Path, include_invalid: bool = False
) -> tuple[Path, Path]:
    """Write the report of a series and return the paths of its one picture (SVG) and its page (HTML, no network).

    Beside them stand the same report as Markdown and the pictures that it shows. With `include_invalid` a section says
    what the rule would have said with the invalid samples counted.

    Raises:
        UsageError: the series is not registered.
    """
    with store.read() as connection:
        report = load_report(connection, series, headline=headline)
        if include_invalid:
            report = replace(report, with_invalid=windows_with_invalid(connection, series))
    document = build_document(report)
    folder.mkdir(parents=True, exist_ok=True)
    picture, page = folder / f"{series}.svg", folder / f"{series}.html"
    picture.write_bytes(series_svg(report))
    page.write_text(as_page(document), encoding="utf-8")
    (folder / f"{series}.md").write_text(as_markdown(document, prefix=series), encoding="utf-8")
    for part in document.pictures:
        (folder / f"{series}-{part.name}.svg").write_bytes(part.svg)
    return picture, page


def build_document(report: SeriesReport) -> Document:
    """Return the report as a document, in the order in which a reader asks."""
    return Document(
        f"canaryd: {report.name}", report.headline, [made for section in _SECTIONS if (made := section(report))]
    )


def load_report(connection: Connection, series: str, *, headline: str) -> SeriesReport:
    """Return what the report of a series shows, from its stored rows.

    Raises:
        UsageError: the series is not registered.
    """
    stored = read.series(connection, series)
    protocol = registration.parse(read.registration(connection, series), source=f"registration of {series}")
    verdicts = read.verdicts(connection, series)
    arms = [arm for arm in read.arms(connection, series) if arm.role != "replica"]
    spans = [Span(series, arm.name, stored.start_date, date.max) for arm in arms]
    warnings: dict[str, Sequence[EarlyWarningDay]] = {
        stream: read.early_warnings(connection, series, stream=stream) for stream in protocol.early_warning.streams
    }
    return SeriesReport(
        headline=headline,
        series=stored,
        prereg=protocol,
        arms=tuple(
            build_curve(arm, verdicts, daily=_daily_means(connection, span))
            for arm, span in zip(arms, spans, strict=True)
        ),
        verdicts=verdicts,
        events=build_events(verdicts, warnings),
        warnings=warnings,
        where=read_where(connection, series, verdicts=verdicts),
        accounts=read_accounts(connection, stored),
        document=studies.registration_document(connection, series),
        deviations=tuple(
            Decided(deviation, digest)
            for deviation, digest in zip(
                epochs.deviations(connection, series), ledger.deviation_digests(connection, series), strict=True
            )
        ),
        set_aside=set_aside_by_hand(connection, series),
        coincidences=tuple(
            Event(one.slot_date, event_text(one))
            for one in events(connection, series, first=stored.start_date, last=date.max)
        ),
        format_moves=format_moves(connection, series),
        judge=_judge_days(connection, series, protocol=protocol),
        ledger=ledger.head(connection, series),
        set_aside_days=_set_aside_days(connection, stored, rule=protocol.rule, verdicts=verdicts),
        with_invalid=None,
    )


def _set_aside_days(
    connection: Connection, series: Series, *, rule: RuleParams, verdicts: Sequence[StoredVerdict]
) -> dict[str, tuple[int, int]]:
    """Return by arm how many days of the latest decided window and of its baseline are set aside as a whole."""
    if not verdicts:
        return {}
    latest = verdicts[-1].verdict
    first = next(one.first_date for one in epochs.epochs(connection, series) if one.number == latest.epoch)
    grid = Grid(first, rule.baseline_days, rule.window_days)
    return {
        arm: (
            sum(grid.index_of(day) == latest.window_index for day in days),
            sum(grid.index_of(day) == 0 for day in days),
        )
        for arm, days in days_set_aside(connection, series.name).items()
    }


def _judge_days(connection: Connection, series: str, *, protocol: Prereg) -> tuple[JudgeDay, ...]:
    if protocol.judge is None:
        return ()
    return judge_days(readings(connection, series), max_anchors_moved=protocol.judge.max_anchors_moved)


def _daily_means(connection: Connection, span: Span) -> list[tuple[date, float]]:
    """Return the mean score over items of each day, each item counted once."""
    by_day: dict[date, list[float]] = defaultdict(list)
    for cell in samples.item_day_cells(connection, span):
        by_day[cell.slot_date].append(cell.total / cell.n)
    return [(day, sum(means) / len(means)) for day, means in sorted(by_day.items())]
