"""The report of a duel as text, Markdown or one HTML page: the same sections in three dresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from canaryd.duel.anchors import Movement
from canaryd.duel.diagnostics import Rate
from canaryd.duel.model import LABELS, SIDES
from canaryd.duel.report import DuelReport
from canaryd.wording import counted

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>canaryd duel: {name}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid; vertical-align: top; }}
</style>
<main>
<h1>{name}</h1>
{body}
</main>
</html>
"""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report: sentences, then a table where `header` is not empty."""

    title: str
    sentences: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def as_text(report: DuelReport) -> str:
    """Return the report as lines for a terminal."""
    lines = []
    for section in sections(report):
        lines += ["", section.title.upper() if section.title else "", *section.sentences]
        if section.header:
            table = (section.header, *section.rows)
            widths = [max(len(row[column]) for row in table) for column in range(len(section.header))]
            lines += [
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
            ]
    return "\n".join(lines).strip()


def as_markdown(report: DuelReport) -> str:
    """Return the report as Markdown."""
    blocks = [f"# {_plain(report.duel.plan.name)}"]
    for section in sections(report):
        blocks += [f"## {section.title}"] if section.title else []
        blocks += [_plain(sentence) for sentence in section.sentences]
        if section.header:
            rows = [section.header, tuple("---" for _ in section.header), *section.rows]
            blocks.append("\n".join(f"| {' | '.join(_plain(cell) for cell in row)} |" for row in rows))
    return "\n\n".join(blocks) + "\n"


def as_html(report: DuelReport) -> str:
    """Return the report as one page that needs no network."""
    blocks: list[str] = []
    for section in sections(report):
        blocks += [f"<h2>{escape(section.title)}</h2>"] if section.title else []
        mark = ("<p>", "</p>") if section.title else ("<p><strong>", "</strong></p>")
        blocks += [f"{mark[0]}{escape(sentence)}{mark[1]}" for sentence in section.sentences]
        if section.header:
            head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in section.header)
            body = "\n".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in section.rows)
            table = f"<table>\n<tr>{head}</tr>\n{body}\n</table>"
            blocks.append(
                f'<div class="wide" tabindex="0" role="region" aria-label="{escape(section.title)}">{table}</div>'
            )
    return _PAGE.format(name=escape(report.duel.plan.name), body="\n".join(blocks))


def sections(report: DuelReport) -> Iterator[Section]:
    """Yield the parts of the report, in order; a banner of reduced comparability stands before any number."""
    if report.movement and report.movement.banner:
        yield Section("", (report.movement.banner,))
    yield Section("", (report.headline,))
    yield _threshold(report)
    yield _scores(report)
    yield _families(report)
    yield _judges(report)
    yield _labels(report)
    yield _questions(report)
    if report.anchors and report.duel.anchors:
        yield _anchors(report)
    if report.movement:
        yield _movement(report.movement)
    yield _registered(report)


def _threshold(report: DuelReport) -> Section:
    outcome, limits = report.outcome, report.duel.plan.thresholds
    ci, found = outcome.gap.ci, outcome.fabrications
    interval = f"[{_points(ci[0])}, {_points(ci[1])}]" if ci else f"none ({outcome.gap.status})"
    ratio = f"{found.ratio:.2f}" if found.ratio is not None else found.state.replace("_", " ")
    counts = (
        f"{found.questions[0]} and {found.questions[1]} questions ({found.records[0]} and {found.records[1]} records)"
    )
    rows = (
        (
            "weighted gap",
            f"{_points(outcome.gap.gap)} points",
            f"at least {100 * limits.min_gap:g}",
            _said(outcome.fired.gap),
        ),
        (
            "fabrications",
            f"{ratio}: {counts}",
            f"at least {limits.min_fabrication_ratio:g} times, or {limits.min_fabrications_against_zero} against 0",
            _said(outcome.fired.fabrications),
        ),
        (f"{100 * limits.confidence:g} % interval", interval, "excludes 0", _said(outcome.fired.interval)),
    )
    return Section("Threshold", _bootstrap(report), ("clause", "found", "registered", "fired"), rows)


def _bootstrap(report: DuelReport) -> tuple[str, ...]:
    picture = report.outcome.bootstrap
    if picture is None:
        return ()
    how = f"{picture.draws} draws, {picture.generator}, seed {picture.seed}"
    bounds = f"[{_points(picture.low)}, {_points(picture.high)}]"
    return (f"Beside the interval that decides, a bootstrap within families: {bounds} ({how}).",)


def _scores(report: DuelReport) -> Section:
    rows = tuple(
        (side, config.id, _percent(scores.uniform), _percent(scores.weighted))
        for side, config, scores in zip(SIDES, report.duel.plan.substrates, report.outcome.scores, strict=True)
    )
    return Section("Win rates", (), ("", "substrate", "uniform", "weighted"), rows)


def _families(report: DuelReport) -> Section:
    rows = tuple(
        (one.name, f"{one.weight:g}", str(one.questions), _percent(one.rate("a")), _percent(one.rate("b")))
        for one in report.outcome.families
    )
    against = report.diagnostics.disagreeing_families
    note = (f"Against the weighted order: {', '.join(against)}.",) if against else ()
    return Section("Families", note, ("family", "weight", "questions", "a wins", "b wins"), rows)


def _judges(report: DuelReport) -> Section:
    found = report.diagnostics
    kappa = "not defined" if found.kappa is None else f"{found.kappa:.2f}"
    sentences = (
        f"The judges agree on {_percent(found.agreement)} of the questions (Cohen's kappa {kappa}).",
        f"Where one substrate won, the longer retrieval did in {_rate(found.longer_wins)}.",
    )
    rows = tuple(
        (
            one.judge,
            _percent(one.tie_rate),
            _percent(one.collapsed_tie_rate),
            _percent(one.tie_inflation),
            _rate(one.first_position),
            "-" if one.cost_usd is None else f"{one.cost_usd:.4f} USD",
            ", ".join(one.resolved_models) or "not reported",
        )
        for one in found.judges
    )
    header = (
        "judge",
        "ties as said",
        "after the swap",
        "by the swap alone",
        "first position wins",
        "cost",
        "served as",
    )
    return Section("Judges", sentences, header, rows)


def _labels(report: DuelReport) -> Section:
    found = report.diagnostics
    rows = tuple(
        (side, judge, *(str(counts[label]) for label in LABELS))
        for side in SIDES
        for judge, counts in found.labels[side].items()
    )
    sentences = []
    for side in SIDES:
        if found.expected_labels[side].questions:
            sentences.append(
                f"{side} got the expected label in {_rate(found.expected_labels[side])} of its judgements."
            )
        if found.expected_documents[side].questions:
            sentences.append(f"{side} retrieved the expected document in {_rate(found.expected_documents[side])}.")
    return Section("Labels", tuple(sentences), ("", "judge", *LABELS), rows)


def _questions(report: DuelReport) -> Section:
    outcome, limit = report.outcome, report.duel.plan.thresholds.max_unjudged_share
    sentence = (
        f"{len(outcome.judged)} judged, {len(outcome.unjudged)} unjudged ({_percent(outcome.unjudged_share)}, at most "
        f"{_percent(limit)} leave a verdict), {len(outcome.pending)} pending."
    )
    rows = tuple((one.id, one.family, one.reason) for one in outcome.unjudged)
    return Section("Questions", (sentence,), ("unjudged", "family", "why") if rows else (), rows)


def _anchors(report: DuelReport) -> Section:
    rows = tuple(
        (one.judge, f"{one.agreeing} of {len(one.verdicts)}", str(one.anchors - len(one.verdicts)))
        for one in report.anchors
    )
    return Section("Anchors", (), ("judge", "agrees with people", "not judged"), rows)


def _movement(found: Movement) -> Section:
    ci = found.shift.ci
    interval = f"[{_points(ci[0])}, {_points(ci[1])}]" if ci else f"none ({found.shift.status})"
    over = counted(found.questions, "question")
    sentences = (
        f"What moved: {found.moved}.",
        f"The weighted gap moved by {_points(found.shift.gap)} points, {interval}, over {over}.",
    )
    rows = tuple((judge, str(len(ids)), ", ".join(ids)) for judge, ids in found.anchors_moved.items())
    return Section("Against the earlier duel", sentences, ("judge", "anchors moved", "which"), rows)


def _registered(report: DuelReport) -> Section:
    plan = report.duel.plan
    sentences = (
        f"Registered as {report.duel.digest}; retrievals cut to {plan.retrieval_tokens} tokens of 4 characters.",
    )
    rows = tuple((judge.identity, judge.family, judge.arm.base_url or "its own address") for judge in plan.judges)
    return Section("Registration", sentences, ("judge", "family", "asked at"), rows)


def _points(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:+z.1f}"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


def _rate(rate: Rate) -> str:
    if rate.ci is None:
        return "no question"
    return f"{_percent(rate.value)} [{100 * rate.ci[0]:.1f}, {100 * rate.ci[1]:.1f}] of {rate.questions}"


def _said(fired: bool) -> str:
    return "yes" if fired else "no"


def _plain(text: str) -> str:
    """Return a text that means nothing in Markdown, on one line."""
    return "".join(
        f"\\{character}" if character in "\\`*_[]<>|#" else character for character in " ".join(text.split())
    )
