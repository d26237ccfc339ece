"""Where and when the change sits, in a report: families, target labels, items, dates. Exploratory, and labelled so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canaryd.report import words
from canaryd.report.build import Interval, SeriesReport
from canaryd.report.document import Bullets, Part, Picture, Section, Table, Text
from canaryd.report.plots import draw_before_after, draw_capital, draw_forest, picture
from canaryd.report.where import Whereabouts
from canaryd.stats.estimate import TooFew
from canaryd.stats.localise import GroupDelta, ItemChange

#: More items than this are in the table, but no longer fit a picture.
_DRAWN_ITEMS = 30


def places_section(report: SeriesReport) -> Section:
    """Return per-family and per-target deltas and, only after a declared change, the items and the windows since."""
    where = report.where
    if where is None:
        return Section("Where (exploratory)", [Text("No window is decided yet.")])
    windows = " and ".join(f"window {index}" for index in where.windows)
    what = "the two windows that declared the latest change, pooled" if where.declared else "the latest decided window"
    parts: list[Part] = [
        Text(
            f"Exploratory: none of this was registered as a test of its own, and none of it declares anything. Held "
            f"against the baseline: {windows} ({what}). p-values are Holm-adjusted over the groups of a table."
        )
    ]
    parts += _group_parts(report, "family", groups=where.families)
    parts += _group_parts(report, "target label", groups=where.targets)
    parts += (
        _item_parts(where, report.prereg.localisation_q)
        if where.declared
        else [Text("Items are listed only after a declared change.")]
    )
    if where.since:
        parts.append(_since(report, where))
    return Section("Where (exploratory)", parts)


def _group_parts(report: SeriesReport, kind: str, *, groups: Sequence[GroupDelta]) -> Iterator[Part]:
    if not groups:
        return
    rows = [
        (
            _short(one.group),
            str(one.items),
            *words.estimate_cells(one.estimate),
            words.p_value(one.p),
            words.p_value(one.p_holm),
        )
        for one in groups
    ]
    head = (kind, "items", "delta, points", report.interval, "status", "p", "p, Holm")
    table = Table(f"Delta by {kind}", head, rows)
    drawn = [(_short(one.group), interval) for one in groups if (interval := _interval(one)) is not None]
    if not drawn:
        yield table
        return
    svg = picture(lambda axes: draw_forest(axes, drawn), height=1 + 0.3 * len(drawn))
    yield Picture(kind.replace(" ", "-"), f"Delta by {kind} with its {report.interval} (points)", svg, table)


def _interval(group: GroupDelta) -> Interval | None:
    estimate = group.estimate
    if isinstance(estimate, TooFew):
        return None if estimate.delta is None else Interval(estimate.delta, None, None)
    lower, upper = (estimate.ci or estimate.ci_item) if estimate.decidable else (None, None)
    return Interval(estimate.delta, lower, upper)


def _short(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"


def _item_parts(where: Whereabouts, q: float) -> Iterator[Part]:
    share = f"{100 * q:g} %"
    listed = sorted(where.items, key=lambda item: item.mean_window - item.mean_baseline)
    yield Text(
        f"{len(listed)} of {where.items_tested} items moved at a false discovery rate of {share} (exact Fisher or "
        "Welch, Benjamini-Hochberg)."
    )
    if not listed:
        return
    head = ("item", "baseline, points (n)", "after, points (n)", "test", "p", "p, BH")
    table = Table("Items that moved", head, [_item_row(item) for item in listed])
    if len(listed) > _DRAWN_ITEMS:
        yield table
        return
    rows = [(_short(item.item_id), item.mean_baseline, item.mean_window) for item in listed]
    svg = picture(lambda axes: draw_before_after(axes, rows), height=1 + 0.25 * len(rows))
    yield Picture("items", f"Items that moved, at a false discovery rate of {share}", svg, table)


def _item_row(item: ItemChange) -> tuple[str, ...]:
    return (
        item.item_id,
        f"{words.points(item.mean_baseline)} ({item.n_baseline})",
        f"{words.points(item.mean_window)} ({item.n_window})",
        item.test,
        words.p_value(item.p),
        words.p_value(item.p_bh),
    )


def _since(report: SeriesReport, where: Whereabouts) -> Table:
    rows = [(f"window {index}", *words.estimate_cells(estimate)) for index, estimate in where.since]
    caption = "A second change? Later windows against the two windows that declared the first one"
    return Table(caption, ("window", "delta, points", report.interval, "status"), rows)


def dates_section(report: SeriesReport) -> Section:
    """Return what could be known when, the early warning's capital, and when the change most likely began."""
    entries = [f"{event.day}: {event.sentence}" for event in report.events]
    parts: list[Part] = [Bullets(entries or ["nothing was declared, and no early warning was given"])]
    if report.where and report.where.dates:
        rows = [
            (stream, dates.best.isoformat(), str(len(dates.days)), words.spans(dates.days))
            for stream, dates in report.where.dates.items()
        ]
        ratio = report.prereg.early_warning.change_set_ratio
        caption = f"When the change most likely began, with every day at most {ratio:g} times less likely"
        parts.append(Table(caption, ("stream", "most likely first changed day", "days", "the set"), rows))
    if any(report.warnings.values()):
        rows = [
            (stream, f"{steps[-1].capital:.3g}", f"{steps[-1].threshold:.0f}", str(sum(step.alarm for step in steps)))
            for stream, steps in report.warnings.items()
            if steps
        ]
        parts.append(
            Picture(
                "capital",
                "Early warning: capital of each stream as a share of its alarm level (dashed), logarithmic",
                picture(lambda axes: draw_capital(axes, report)),
                Table("Early warning on the last day", ("stream", "capital", "alarm level", "alarms so far"), rows),
            )
        )
    return Section("What happened, in the order in which it could be known", parts)
