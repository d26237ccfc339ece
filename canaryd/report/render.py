"""Writing the picture and the page of a series."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from html import escape
from pathlib import Path

from sqlalchemy import Connection

from canaryd import prereg as registration
from canaryd.report.build import SeriesReport, build_curve, build_events
from canaryd.report.plots import series_svg
from canaryd.store import read, samples
from canaryd.store.engine import Store
from canaryd.store.rows import Span

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>canaryd: {name}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
figure {{ margin: 0; background: #fff; border-radius: 6px; padding: .5rem; }}
figure svg {{ width: 100%; height: auto; }}
</style>
<h1>{name}</h1>
<p><strong>{headline}</strong></p>
<figure role="img" aria-label="{label}">{svg}</figure>
<h2>What happened, in the order in which it could be known</h2>
<ul>
{events}
</ul>
</html>
"""


def write_report(store: Store, series: str, *, headline: str, folder: Path) -> tuple[Path, Path]:
    """Write the picture (SVG) and the page (HTML, one file, no network) of a series and return their paths.

    Raises:
        UsageError: the series is not registered.
    """
    with store.read() as connection:
        report = load_report(connection, series, headline=headline)
    svg = series_svg(report)
    picture, page = folder / f"{series}.svg", folder / f"{series}.html"
    picture.write_bytes(svg)
    page.write_text(page_html(report, svg))
    return picture, page


def load_report(connection: Connection, series: str, *, headline: str) -> SeriesReport:
    """Return what the report of a series shows, from its stored rows."""
    stored = read.series(connection, series)
    protocol = registration.parse(read.registration(connection, series), source=f"registration of {series}")
    verdicts = read.verdicts(connection, series)
    arms = [arm for arm in read.arms(connection, series) if arm.role != "replica"]
    streams = protocol.early_warning.streams
    return SeriesReport(
        name=series,
        headline=headline,
        min_effect=protocol.rule.min_effect,
        arms=tuple(
            build_curve(
                arm, verdicts, daily=_daily_means(connection, Span(series, arm.name, stored.start_date, date.max))
            )
            for arm in arms
        ),
        events=build_events(verdicts, {name: read.early_warnings(connection, series, stream=name) for name in streams}),
    )


def page_html(report: SeriesReport, svg: bytes) -> str:
    """Return the page of a report around its picture."""
    return _PAGE.format(
        name=escape(report.name),
        headline=escape(report.headline),
        label=escape(f"Daily scores, windowed changes and token changes of {report.name}. {report.headline}"),
        svg=svg.decode().partition("?>")[2].partition(">")[2].strip(),
        events="\n".join(f"<li>{event.day}: {escape(event.sentence)}</li>" for event in report.events)
        or "<li>nothing was declared, and no early warning was given</li>",
    )


def _daily_means(connection: Connection, span: Span) -> list[tuple[date, float]]:
    """Return the mean score over items of each day, each item counted once."""
    by_day: dict[date, list[float]] = defaultdict(list)
    for cell in samples.item_day_cells(connection, span):
        by_day[cell.slot_date].append(cell.total / cell.n)
    return [(day, sum(means) / len(means)) for day, means in sorted(by_day.items())]
