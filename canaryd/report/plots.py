"""The pictures of a report, as SVG; the same report gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from canaryd.report.build import ArmCurve, Interval, SeriesReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Every colour of the pictures by its purpose; a page puts its own in their places.
PALETTE = {
    "paper": "#fffffe",
    "ink": "#222428",
    "faint": "#9aa0a8",
    "tracked": "#b3261e",
    "control": "#1f5f99",
    "replica": "#5b5b5b",
    "third": "#1d7a46",
}
_MARKERS = {"tracked": "o", "control": "s", "replica": "^"}
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "canaryd",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.fontsize": "small",
    "figure.facecolor": PALETTE["paper"],
    "axes.facecolor": PALETTE["paper"],
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), PALETTE["ink"]),
}


def picture(draw: Callable[[Axes], None], *, height: float = 3.2) -> bytes:
    """Return an SVG of one plot, as wide as is still readable on a phone; `height` is in inches."""
    return _drawn((5.2, height), lambda figure: draw(figure.subplots()))


def _drawn(size: tuple[float, float], draw: Callable[[Figure], None]) -> bytes:
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    cycle = cycler(color=[PALETTE[name] for name in ("tracked", "control", "third", "replica")])
    with mpl.rc_context(_STYLE | {"axes.prop_cycle": cycle}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "canaryd"})
    return buffer.getvalue()


def series_svg(report: SeriesReport) -> bytes:
    """Return one picture of a series: daily mean scores, windowed deltas and token changes, with their intervals."""

    def draw(figure: Figure) -> None:
        panes = figure.subplots(3, 1, sharex=True)
        for axes, one in zip(panes, (draw_scores, draw_deltas, draw_tokens), strict=True):
            one(axes, report)
        panes[0].set_title("Mean score of each day")
        panes[1].set_title("Change against the baseline, each item with itself; dashed: the minimum effect")
        panes[2].set_title("Output tokens against the baseline")

    return _drawn((10, 9), draw)


def draw_scores(axes: Axes, report: SeriesReport) -> None:
    """Draw the mean score of each day of each arm, in points, and from when to when the change may have begun."""
    for arm in report.arms:
        axes.plot(
            [_number(day) for day, _ in arm.daily],
            [100 * score for _, score in arm.daily],
            linestyle="",
            marker=_MARKERS[arm.role],
            markersize=3.5,
            color=PALETTE[arm.role],
            label=f"{arm.arm}: {arm.model}",
        )
    dates = report.where.dates.get("score") if report.where else None
    if dates:
        span = (_number(dates.days[0]) - 0.5, _number(dates.days[-1]) + 0.5)
        axes.axvspan(*span, color=PALETTE["faint"], alpha=0.3, linewidth=0, label="change-date set")
    axes.legend(loc="best")
    _dated(axes, report, unit="points")


def draw_deltas(axes: Axes, report: SeriesReport) -> None:
    """Draw each window's delta of each arm with its interval, in points, and the minimum effect."""
    for arm in report.arms:
        _draw_windows(axes, arm, values=[point.delta for point in arm.windows])
    for limit in (-report.min_effect, report.min_effect):
        axes.axhline(100 * limit, color=PALETTE["ink"], linewidth=0.8, linestyle="--")
    axes.axhline(0, color=PALETTE["ink"], linewidth=0.8)
    _dated(axes, report, unit="points")


def draw_tokens(axes: Axes, report: SeriesReport) -> None:
    """Draw each window's relative change of output tokens of each arm with its interval, in percent."""
    for arm in report.arms:
        _draw_windows(axes, arm, values=[point.tokens for point in arm.windows])
    axes.axhline(0, color=PALETTE["ink"], linewidth=0.8)
    _dated(axes, report, unit="%")


def _draw_windows(axes: Axes, arm: ArmCurve, *, values: Sequence[Interval | None]) -> None:
    """Draw a band over the days of each window that has an interval, and nothing where there is none."""
    colour = PALETTE[arm.role]
    for point, interval in zip(arm.windows, values, strict=True):
        if interval is None:
            continue
        days = [_number(point.first), _number(point.last) + 1]
        axes.plot(days, [100 * interval.value] * 2, color=colour, linewidth=1.2)
        axes.plot([sum(days) / 2], [100 * interval.value], marker=_MARKERS[arm.role], markersize=4, color=colour)
        if interval.lower is not None and interval.upper is not None:
            axes.fill_between(days, 100 * interval.lower, 100 * interval.upper, color=colour, alpha=0.2, linewidth=0)


def _dated(axes: Axes, report: SeriesReport, *, unit: str) -> None:
    """Label the axes, and mark the days on which something became known."""
    from matplotlib.dates import HOURLY, MONTHLY, AutoDateLocator, ConciseDateFormatter

    for event in report.events:
        axes.axvline(_number(event.day), color=PALETTE["faint"], linewidth=0.8, linestyle=":")
    axes.set_ylabel(unit)
    axes.xaxis_date()
    locator: Any = AutoDateLocator
    formatter: Any = ConciseDateFormatter
    axes.xaxis.set_major_locator(placed := locator(maxticks=6))
    # Else no number of hours fits three to five days, and none of months three to five years (one day is shown in four)
    placed.intervald[HOURLY], placed.intervald[MONTHLY] = [24], [1, 2, 3, 4, 6, 12]
    axes.xaxis.set_major_formatter(formatter(placed))


def draw_capital(axes: Axes, report: SeriesReport) -> None:
    """Draw the capital of each early-warning stream as a share of its alarm level, on a logarithmic axis."""
    for (stream, rows), style in zip(report.warnings.items(), ("-", "--", "-."), strict=False):
        shares = [max(row.capital / row.threshold, 1e-6) for row in rows]
        axes.plot([_number(row.slot_date) for row in rows], shares, linestyle=style, linewidth=1.2, label=stream)
    axes.axhline(1, color=PALETTE["ink"], linewidth=0.8, linestyle="--")
    axes.set_yscale("log")
    axes.legend(loc="best")
    _dated(axes, report, unit="capital / alarm level")


def draw_forest(axes: Axes, rows: Sequence[tuple[str, Interval]]) -> None:
    """Draw one interval a row, in points, the first row on top."""
    for place, (_, interval) in enumerate(rows):
        if interval.lower is not None and interval.upper is not None:
            axes.plot([100 * interval.lower, 100 * interval.upper], [place, place], color=PALETTE["tracked"])
        axes.plot([100 * interval.value], [place], marker="o", markersize=5, color=PALETTE["tracked"])
    axes.axvline(0, color=PALETTE["ink"], linewidth=0.8)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("points")


def draw_before_after(axes: Axes, rows: Sequence[tuple[str, float, float]]) -> None:
    """Draw one line a row from the mean score before (open) to the one after (filled), in points."""
    for place, (_, before, after) in enumerate(rows):
        axes.plot([100 * before, 100 * after], [place, place], color=PALETTE["faint"])
        axes.plot([100 * before], [place], marker="o", markersize=5, color=PALETTE["control"], fillstyle="none")
        axes.plot([100 * after], [place], marker="o", markersize=5, color=PALETTE["tracked"])
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(-4, 104)
    axes.set_xlabel("mean score, points (open: baseline, filled: after)")


def _number(day: date) -> float:
    """Return a date as matplotlib counts them: days since 1970-01-01."""
    return float((day - date(1970, 1, 1)).days)


def characteristics_svg(answer: Mapping[str, Any]) -> bytes:
    """Return operating characteristics (their JSON form) as a picture: false alarms, and detection by drop."""

    def draw(figure: Figure) -> None:
        alarms, power = figure.subplots(1, 2)
        draw_false_alarms(alarms, answer)
        draw_power(power, answer)
        alarms.set_title("False alarms, nothing changes")
        power.set_title("Detected after a change of the model")

    return _drawn((10, 4.5), draw)


def draw_false_alarms(axes: Axes, answer: Mapping[str, Any]) -> None:
    """Draw the share of series with a false alarm by the days since the start."""
    for row in answer["false_alarms"]:
        horizons = sorted(int(days) for days in row["rule"])
        label = f"rule, day shock {100 * row['shock']['sd']:g} points"
        axes.plot(horizons, _percents(row["rule"], horizons), marker="o", label=label)
        for stream, shares in row["early_warning"].items():
            axes.plot(
                horizons,
                _percents(shares, horizons),
                marker="x",
                linestyle=":",
                label=f"early warning {stream}, same shock",
            )
    axes.set_xlabel("days since the start")
    axes.set_ylabel("% of series")
    axes.legend()


def _percents(shares: Mapping[str, Any], days: Sequence[int]) -> list[float]:
    """Return the shares of some days; what is stored has its keys in the order of their letters."""
    return [100 * shares[str(day)]["share"] for day in days]


def draw_power(axes: Axes, answer: Mapping[str, Any]) -> None:
    """Draw the share of series in which a change of the model is detected, by its size."""
    rows = [row for row in answer["detections"] if row["truth"] == "model"]
    drops = [100 * row["drop"] for row in rows]
    for days in sorted(rows[0]["rule"]["within"], key=int) if rows else ():
        shares = [100 * row["rule"]["within"][days]["share"] for row in rows]
        axes.plot(drops, shares, marker="o", label=f"rule, within {days} days")
        for stream in rows[0]["early_warning"]:
            shares = [100 * row["early_warning"][stream]["within"][days]["share"] for row in rows]
            axes.plot(drops, shares, marker="x", linestyle=":", label=f"early warning {stream}, within {days} days")
    axes.set_xlabel("fall of the mean score, points")
    axes.set_ylabel("% of series")
    axes.legend()
