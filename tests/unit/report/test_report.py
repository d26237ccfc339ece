"""The report of a played series: the numbers are those of the store, on the page and in the Markdown alike."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from sqlalchemy import text

from canaryd.report import words
from canaryd.report.build import SeriesReport
from canaryd.report.document import Document, Section, Table, Text
from canaryd.report.limits import people_section
from canaryd.report.markdown import as_markdown
from canaryd.report.page import as_page
from canaryd.report.places import places_section
from canaryd.report.plots import draw_scores, picture
from canaryd.report.render import build_document, load_report, write_report
from canaryd.report.verdicts import beside_section, verdict_section
from canaryd.stats.estimate import Estimate
from canaryd.store.engine import Store
from canaryd.store.notes import SetAside

TOO_FEW = "the paired items come in too few clusters for an interval"
HEADLINE = "play: declared <regression> of -41.6 points"


def report_of(store: Store) -> SeriesReport:
    with store.read() as connection:
        return load_report(connection, "play", headline=HEADLINE)


@pytest.fixture(scope="module")
def report(played: Store) -> SeriesReport:
    return report_of(played)


@pytest.fixture(scope="module")
def document(report: SeriesReport) -> Document:
    return build_document(report)


class Page(HTMLParser):
    """The cells, identifiers, headings and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "th"):
            self._inside = tag
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.cells[-1] += data

    def values(self, attribute: str) -> list[str]:
        return [attrs[attribute] or "" for _, attrs in self.tags if attribute in attrs]


def tables(section: Section) -> list[Table]:
    found = []
    for part in section.parts:
        inner = getattr(part, "parts", [getattr(part, "table", None) or part])
        found += [one for one in inner if isinstance(one, Table)]
    return found


def rows(store: Store, query: str) -> list[Any]:
    with store.read() as connection:
        return list(connection.execute(text(query)).all())


def test_page_and_markdown_show_the_same_cells(document: Document) -> None:
    markdown = as_markdown(document, prefix="play")
    lines = [line for line in markdown.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    cells = [cell for line in lines for cell in re.split(r"(?<!\\) \| ", line[2:-2])]
    assert len(cells) > 400
    assert Counter(re.sub(r"\\(.)", r"\1", cell) for cell in cells) == Counter(Page(as_page(document)).cells)


def test_every_clause_stands_with_its_figure_and_limit(report: SeriesReport) -> None:
    stored: Any = report.verdicts[-1].verdict.clauses
    latest = next(
        table for table in tables(verdict_section(report)) if table.caption.startswith("large (tracked), window 4")
    )
    clauses = [*stored["window"]["evaluable"], *stored["window"]["hit"]]
    assert [row[1] == "met" for row in latest.rows] == [clause["passed"] for clause in clauses]
    for row, clause in zip(latest.rows[-3:], clauses[-3:], strict=True):
        assert row[2:] == (f"{100 * clause['figure']:.1f}", f"{100 * clause['limit']:.1f}")
    assert len(tables(verdict_section(report))) == 1 + 2 + 1 + 2


def test_the_page_needs_no_network_and_has_one_of_each_identifier(document: Document) -> None:
    page = as_page(document)
    parsed = Page(page)
    assert {tag for tag, _ in parsed.tags} & {"script", "link", "img", "iframe"} == set()
    assert "default-src 'none'" in page
    assert not re.search(r"""(?:src|href)=["'](?!#)""", page)
    identifiers = parsed.values("id")
    assert len(identifiers) == len(set(identifiers)) > 100
    anchors = {target.removeprefix("#") for target in [*parsed.values("href"), *parsed.values("xlink:href")]}
    assert anchors | set(parsed.values("aria-labelledby")) <= set(identifiers)
    assert set(re.findall(r"url\(#(.*?)\)", page)) <= set(identifiers)


def test_the_page_can_be_read_without_eyes_and_without_a_mouse(document: Document) -> None:
    parsed = Page(as_page(document))
    pictures = [attrs for tag, attrs in parsed.tags if tag == "svg"]
    assert len(pictures) == len(document.pictures) == 9
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in pictures)
    assert all(picture.table for picture in document.pictures)
    scrolling = [attrs for tag, attrs in parsed.tags if attrs.get("class") == "scroll"]
    assert all(attrs["tabindex"] == "0" and attrs["aria-label"] for attrs in scrolling)
    names = [tag for tag, _ in parsed.tags]
    assert len(scrolling) == names.count("table") == names.count("caption")
    assert (names.count("h1"), names.count("h2"), names.count("main")) == (1, len(document.sections), 1)
    assert parsed.tags[0] == ("html", {"lang": "en"})


def test_pictures_take_the_colours_of_the_page(document: Document) -> None:
    page = as_page(document)
    body = page[page.index("<body>") :]
    painted = set(re.findall(r"(?:fill|stroke|stop-color): ?([^;\"]+)", body))
    assert {colour for colour in painted if not re.fullmatch(r"none|var\(--\w+\)", colour)} == set()
    assert {"var(--tracked)", "var(--control)", "var(--ink)"} <= painted
    assert "prefers-color-scheme: dark" in page


def test_no_question_and_no_answer_leaves_the_store(played: Store, tmp_path: Path) -> None:
    write_report(played, "play", headline=HEADLINE, folder=tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert {"play.html", "play.md", "play.svg", "play-deltas.svg"} <= set(written)
    for path in tmp_path.iterdir():
        assert "secret" not in path.read_text(), path
    assert "<regression>" not in (tmp_path / "play.html").read_text()
    assert "declared &lt;regression&gt; of -41.6 points" in (tmp_path / "play.html").read_text()


def test_the_same_store_gives_the_same_bytes(played: Store, document: Document) -> None:
    assert as_page(build_document(report_of(played))) == as_page(document)


def test_every_picture_of_the_markdown_is_written(played: Store, tmp_path: Path) -> None:
    write_report(played, "play", headline=HEADLINE, folder=tmp_path)
    linked = re.findall(r"\]\((.*?)\)", (tmp_path / "play.md").read_text())
    assert len(linked) == 9
    assert all((tmp_path / name).read_text().startswith("<?xml") for name in linked)


def test_the_accounts_agree_with_the_rows_to_the_last_sample(played: Store, report: SeriesReport) -> None:
    for account in report.accounts:
        stored = rows(
            played,
            "SELECT coalesce(failure_kind, 'scored'), count(*) FROM sample JOIN run_start USING (run_id) "
            f"WHERE arm = '{account.arm}' GROUP BY 1",
        )
        counted = account.scored + sum(account.failures.values()) + sum(account.invalid.values())
        assert account.owed == counted + account.missing == 22 * 24
        assert counted + account.superseded == sum(count for _, count in stored)
    large, small = report.accounts
    assert (large.failures, large.invalid, large.missing) == ({"refusal": 3, "timeout": 1}, {}, 24)
    assert (small.failures, small.invalid, small.scored) == ({"timeout": 1}, {"saturated": 24}, 479)
    assert large.runs == {"completed": 21, "missed": 1}


def test_families_are_recomputed_from_the_raw_samples(played: Store, report: SeriesReport) -> None:
    where = report.where
    assert where is not None
    assert where.windows == (3, 4)
    start = report.series.start_date
    found = rows(
        played,
        "SELECT item_id, slot_date, score FROM sample JOIN run_start USING (run_id) "
        "WHERE arm = 'large' AND score IS NOT NULL",
    )
    limits = [(start, start + timedelta(days=5)), (start + timedelta(days=14), start + timedelta(days=21))]
    for family in where.families:
        members = {f"item-{n}" for n in range(24) if ("sums", "dates", "code")[n % 3] == family.group}
        means = [
            {
                item: fmean(s for i, day, s in found if i == item and str(first) <= str(day) <= str(last))
                for item in members
            }
            for first, last in limits
        ]
        assert family.estimate.delta == pytest.approx(fmean(means[1][item] - means[0][item] for item in members))
        assert family.p_holm is None or family.p is None or family.p_holm >= family.p
    assert [target.group for target in where.targets] == ["no", "yes"]


def test_items_dates_and_later_windows_only_after_a_declared_change(report: SeriesReport, young: Store) -> None:
    where = report.where
    assert where is not None
    assert where.declared
    assert 0 < len(where.items) < where.items_tested == 24
    assert all(item.p_bh is not None and item.p_bh <= 0.05 for item in where.items)
    assert [index for index, _ in where.since] == [4]
    changed = report.series.start_date + timedelta(days=10)
    assert all(changed in dates.days for dates in where.dates.values())
    early = report_of(young)
    assert early.where is None
    assert "Items that moved" not in as_markdown(build_document(early), prefix="play")


def test_before_a_window_is_decided_the_report_says_so(young: Store) -> None:
    early = report_of(young)
    markdown = as_markdown(build_document(early), prefix="play")
    assert markdown.startswith("# canaryd: play\n\n**play: declared")
    assert "No window is decided yet." in markdown
    assert "No window is decided yet." in str(places_section(early).parts)


@pytest.mark.parametrize("days", [1, 2, 3, 4, 5, 6])
def test_the_first_days_have_ticks_that_are_days(report: SeriesReport, days: int) -> None:
    arms = tuple(replace(arm, daily=arm.daily[:days]) for arm in report.arms)
    svg = picture(lambda axes: draw_scores(axes, replace(report, arms=arms, events=(), where=None))).decode()
    assert not re.search(r">\d\d:\d\d<", svg)


def test_what_people_noted_and_what_was_noticed_is_printed(document: Document) -> None:
    markdown = as_markdown(document, prefix="play")
    assert "the first day began \\<late\\>" in markdown
    assert "large: the model that answered rolled from m1 to m2" in markdown
    assert re.search(r"\| noted \| the first day began .* \| none \| sha256:[0-9a-f]{64} \|", markdown)
    assert re.search(r"\| ledger \| \d+ entries, head sha256:[0-9a-f]{64} \|", markdown)


def test_a_slot_that_a_person_set_aside_stands_with_its_reason(report: SeriesReport) -> None:
    aside = SetAside(date(2027, 1, 5), "large", "power cut", datetime(2027, 1, 6, tzinfo=UTC))
    (table,) = [each for each in tables(people_section(replace(report, set_aside=(aside,)))) if "slot" in each.head]
    assert table.rows == [("2027-01-05", "large", "power cut", "2027-01-06 00:00Z")]


def test_the_published_rule_is_reported_with_its_own_clauses(published: Store) -> None:
    report = report_of(published)
    clauses: Any = report.verdicts[-1].verdict.clauses
    assert clauses["mode"] == "prereg"
    markdown = as_markdown(build_document(report), prefix="play")
    assert "beyond chance on the items" in markdown
    assert "beyond chance on the days" not in markdown
    assert "| small, previous window |" in markdown


def test_stored_figures_are_shown_in_the_order_of_days_and_arms(report: SeriesReport, document: Document) -> None:
    by_caption = {table.caption: table for section in document.sections for table in tables(section)}
    alarms = by_caption["False declarations, % of series (exact 95 % upper limit)"]
    assert list(alarms.head[1:]) == ["within 30 days", "within 90 days", "within 365 days"]
    stored: Any = report.series.simulation
    assert [row[3].partition(" (")[0] for row in alarms.rows] == [
        f"{100 * row['rule']['365']['share']:.2f}" for row in stored["false_alarms"]
    ]
    assert all(re.fullmatch(r"[\d.]+ \([\d.]+\)", cell) for row in alarms.rows for cell in row[1:])
    beside = by_caption["Output tokens and headroom in the latest window"]
    assert [row[0] for row in beside.rows] == ["large", "small"]
    clauses: Any = report.verdicts[-1].verdict.clauses
    paired = [str(clauses["arms"][arm]["tokens"]["log_ratio"]["items_paired"]) for arm in ("large", "small")]
    assert [row[list(beside.head).index("items")] for row in beside.rows] == paired


def test_a_group_of_too_few_templates_has_a_delta_and_no_interval(report: SeriesReport) -> None:
    assert report.where is not None
    (group,) = (one for one in report.where.families if one.group == "sums")
    assert isinstance(group.estimate, Estimate)
    few = replace(group.estimate, decidable=False, status="too_few_clusters")
    assert words.estimate_cells(few) == (words.signed(group.estimate.delta), "unknown", TOO_FEW)
    assert words.estimate_cells(group.estimate)[1] == words.bounds(group.estimate.ci)


def test_no_cell_about_an_estimate_or_a_verdict_is_a_name_of_the_code(report: SeriesReport, document: Document) -> None:
    (windows,) = [table for table in tables(verdict_section(report)) if table.head[0] == "window"]
    assert [row[2:4] for row in windows.rows][2:] == [("change", "regression, likely of the model")] * 2
    for section in document.sections:
        for table in tables(section):
            shown = [n for n, head in enumerate(table.head) if head in ("status", "which change", "verdict", "state")]
            assert not [row[n] for row in table.rows for n in shown if "_" in row[n]], table.caption


def test_days_that_are_set_aside_stand_beside_the_outcomes_that_leave_them_out(report: SeriesReport) -> None:
    assert report.set_aside_days == {"small": (1, 0)}
    section = beside_section(report)
    said = "small: 1 day set aside in the window, left out of every estimate and every rate."
    assert said in [part.text for part in section.parts if isinstance(part, Text)]
    (outcomes,) = [table for table in tables(section) if table.caption == "Outcome failures by kind"]
    states = {row[0].partition(":")[0]: row[-1] for row in outcomes.rows}
    assert states["small"] == "ok; 1 day set aside in the window"
    assert "set aside" not in states["large"]


def test_what_invalid_samples_would_have_changed_is_marked_as_no_verdict(
    played: Store, document: Document, tmp_path: Path
) -> None:
    title = "With invalid samples counted: no verdicts"
    assert title not in [section.title for section in document.sections], "only where somebody asks for it"
    write_report(played, "play", headline=HEADLINE, folder=tmp_path, include_invalid=True)
    page = (tmp_path / "play.md").read_text()
    section = page[page.index(f"## {title}") :].split("\n## ")[0]
    assert "None of this is a verdict" in section
    (row,) = [line for line in section.splitlines() if line.startswith("| window 4 ")]
    assert row.endswith("| 24 (saturated 24) |")
    assert "| change | change |" in row
