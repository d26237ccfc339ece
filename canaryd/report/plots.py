"""The pictures of a report, as SVG; the same report gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from canaryd.report.build import ArmCurve, Interval, SeriesReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {"tracked": "#b3261e", "control": "#1f5f99", "replica": "#5b5b5b"}
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "canaryd",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def series_svg(report: SeriesReport) -> bytes:
    """Return one picture of a series: daily mean scores, windowed deltas and token changes, with 99 % intervals."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10, 9), layout="constrained")
        FigureCanvasSVG(figure)
        scores, deltas, tokens = figure.subplots(3, 1, sharex=True)
        _draw_scores(scores, report.arms)
        _draw_deltas(deltas, report)
        _draw_tokens(tokens, report.arms)
        for axes in (scores, deltas, tokens):
            for event in report.events:
                axes.axvline(_number(event.day), color="#999999", linewidth=0.8, linestyle=":")
        return _svg(figure)


def _svg(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "canaryd"})
    return buffer.getvalue()


def _draw_scores(axes: Axes, arms: Sequence[ArmCurve]) -> None:
    for arm in arms:
        axes.plot(
            [_number(day) for day, _ in arm.daily],
            [100 * score for _, score in arm.daily],
            linestyle="",
            marker="o",
            markersize=4,
            color=_COLOURS[arm.role],
            label=f"{arm.arm}: {arm.model}",
        )
    axes.set_title("Mean score of each day")
    axes.set_ylabel("points")
    axes.legend(loc="best", frameon=False)
    axes.xaxis_date()


def _draw_deltas(axes: Axes, report: SeriesReport) -> None:
    for arm in report.arms:
        _draw_intervals(axes, arm, points=[(point.middle, point.delta) for point in arm.windows])
    axes.axhline(0, color="#333333", linewidth=0.8)
    for limit in (-report.min_effect, report.min_effect):
        axes.axhline(100 * limit, color="#333333", linewidth=0.8, linestyle="--")
    axes.set_title("Paired change against the baseline, each item with itself; dashed: the registered minimum effect")
    axes.set_ylabel("points")


def _draw_tokens(axes: Axes, arms: Sequence[ArmCurve]) -> None:
    for arm in arms:
        _draw_intervals(axes, arm, points=[(point.middle, point.tokens) for point in arm.windows])
    axes.axhline(0, color="#333333", linewidth=0.8)
    axes.set_title("Output tokens against the baseline")
    axes.set_ylabel("%")


def _draw_intervals(axes: Axes, arm: ArmCurve, *, points: Sequence[tuple[date, Interval | None]]) -> None:
    known = [(_number(day), interval) for day, interval in points if interval is not None]
    days = [day for day, _ in known]
    colour = _COLOURS[arm.role]
    axes.plot(days, [100 * interval.value for _, interval in known], marker="o", color=colour)
    banded = [(day, i.lower, i.upper) for day, i in known if i.lower is not None and i.upper is not None]
    if banded:
        lower, upper = ([100 * bound[side] for bound in banded] for side in (1, 2))
        axes.fill_between([day for day, *_ in banded], lower, upper, color=colour, alpha=0.18, linewidth=0)


def _number(day: date) -> float:
    """Return a date as matplotlib counts them: days since 1970-01-01."""
    return float((day - date(1970, 1, 1)).days)


def characteristics_svg(answer: Mapping[str, Any]) -> bytes:
    """Return operating characteristics (their JSON form) as a picture: false alarms, and detection by drop."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10, 4.5), layout="constrained")
        FigureCanvasSVG(figure)
        alarms, power = figure.subplots(1, 2)
        _draw_false_alarms(alarms, answer["false_alarms"])
        _draw_power(power, [row for row in answer["detections"] if row["truth"] == "model"])
        return _svg(figure)


def _draw_false_alarms(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        horizons = [int(days) for days in row["rule"]]
        label = f"rule, day shock {100 * row['shock']['sd']:g} points"
        axes.plot(horizons, [100 * share["share"] for share in row["rule"].values()], marker="o", label=label)
        for stream, shares in row["early_warning"].items():
            values = [100 * share["share"] for share in shares.values()]
            axes.plot(horizons, values, marker="x", linestyle=":", label=f"early warning {stream}, same shock")
    axes.set_title("False alarms, nothing changes")
    axes.set_xlabel("days since the start")
    axes.set_ylabel("% of series")
    axes.legend(frameon=False, fontsize="small")


def _draw_power(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    drops = [100 * row["drop"] for row in rows]
    for days in rows[0]["rule"]["within"] if rows else ():
        shares = [100 * row["rule"]["within"][days]["share"] for row in rows]
        axes.plot(drops, shares, marker="o", label=f"rule, within {days} days")
        for stream in rows[0]["early_warning"]:
            shares = [100 * row["early_warning"][stream]["within"][days]["share"] for row in rows]
            axes.plot(drops, shares, marker="x", linestyle=":", label=f"early warning {stream}, within {days} days")
    axes.set_title("Detected after a change of the model")
    axes.set_xlabel("fall of the mean score, points")
    axes.set_ylabel("% of series")
    axes.legend(frameon=False, fontsize="small")
