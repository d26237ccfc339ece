"""One dashboard as an SVG: its panels on its grid, each drawn as Grafana draws its kind."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import matplotlib as mpl
from asking import Json, Line
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from panels import COLUMNS

CELL_IN = (0.58, 0.36)
COLORS = {
    "red": "#e02f44",
    "orange": "#ff9830",
    "yellow": "#e0b400",
    "green": "#56a64b",
    "blue": "#3274d9",
    "purple": "#a352cc",
    "gray": "#8e8e8e",
}
CYCLE = ["#1f78b4", "#e07b00", "#33a02c", "#a352cc", "#c4162a", "#6b4d2f", "#00838f", "#8e8e8e"]
INK, FAINT, EDGE = "#24292e", "#6e7780", "#d8dce1"
STYLE: Json = {
    "svg.hashsalt": "canaryd",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 8,
    "axes.prop_cycle": mpl.cycler(color=CYCLE),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
}
LEGEND_LINES = 6


@dataclass(frozen=True)
class Content:
    """What a panel's queries gave: lines, or the rows of a table under their titles; for a text, the text itself."""

    lines: Sequence[Line] = ()
    titles: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    text: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether a reader would see nothing."""
        return not (self.rows or self.text or any(value == value for line in self.lines for value in line.values))


@dataclass(frozen=True)
class Scene:
    """The moment of looking, the first one shown, and the marks on every graph with their colours."""

    now: datetime
    first: datetime
    marks: Sequence[tuple[datetime, str]] = field(default_factory=list)


def picture(board: Json, contents: Mapping[int, Content], *, scene: Scene) -> bytes:
    """Return the picture of a dashboard; `contents` by the id of the panel."""
    panels = board["panels"]
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(COLUMNS * CELL_IN[0], height * CELL_IN[1]), facecolor="#f4f5f5")
        for panel in panels:
            _frame(figure, panel, height=height)
            inner = _inside(figure, panel, height=height)
            DRAW[panel["type"]](inner, panel, contents[panel["id"]], scene)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "canaryd", "Title": board["title"]})
    # Six digits of a pixel say nothing, and are half of the file; what is written stays as it is.
    return re.sub(rb">[^<]*<|(\.\d{2})\d+", lambda found: found[1] or found[0], buffer.getvalue())


def _frame(figure: Figure, panel: Json, *, height: int) -> None:
    at, gap = panel["gridPos"], 0.08
    box = figure.add_axes(
        (
            (at["x"] + gap) / COLUMNS,
            1 - (at["y"] + at["h"] - gap) / height,
            (at["w"] - 2 * gap) / COLUMNS,
            (at["h"] - 2 * gap) / height,
        )
    )
    box.set(xticks=[], yticks=[], facecolor="white")
    for spine in box.spines.values():
        spine.set(visible=True, color=EDGE, linewidth=0.8)
    offset = {"textcoords": "offset points", "va": "top"}
    box.annotate(panel["title"], (0, 1), xytext=(6, -5), weight="bold", color=INK, xycoords="axes fraction", **offset)


def _inside(figure: Figure, panel: Json, *, height: int) -> Axes:
    """Return the axes inside a panel's frame, without ticks; those of a graph leave room for its labels."""
    at = panel["gridPos"]
    left, bottom = (1.5, 0.9) if panel["type"] in {"timeseries", "state-timeline", "status-history"} else (0.3, 0.25)
    left += 1.5 if panel["type"] == "status-history" else 0
    axes = figure.add_axes(
        (
            (at["x"] + left) / COLUMNS,
            1 - (at["y"] + at["h"] - bottom) / height,
            (at["w"] - left - 0.4) / COLUMNS,
            (at["h"] - bottom - 0.9) / height,
        )
    )
    if panel["type"] not in {"timeseries", "state-timeline", "status-history"}:
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(0, 1))
    return axes


def said(value: Any, unit: str, *, now: datetime) -> str:
    """Return a value as a panel of that unit writes it."""
    if value is None or isinstance(value, str):
        return value or "–"
    match unit:
        case "dateTimeFromNow":
            ahead_s = value / 1000 - now.timestamp()
            text = f"in {_duration(ahead_s)}" if ahead_s > 0 else f"{_duration(-ahead_s)} ago"
            return text if ahead_s else "now"
        case "percentunit":
            return f"{100 * value:.1f} %" if abs(value) >= 0.01 else f"{100 * value:.2g} %"
        case "s":
            return _duration(value)
        case "bytes":
            return f"{value / 2**20:.4g} MiB"
        case _:
            return f"{value:.4g}"


def _duration(seconds: float) -> str:
    for name, length_s in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length_s:
            return f"{seconds / length_s:.3g} {name}"
    return f"{seconds:.3g} s"


def _unit(panel: Json) -> str:
    unit: str = panel["fieldConfig"]["defaults"]["unit"]
    return unit


def _overrides(panel: Json, name: str) -> Json:
    """Return what the overrides of a panel say of a field."""
    found: Json = {}
    for override in panel["fieldConfig"]["overrides"]:
        how, what = override["matcher"]["id"], override["matcher"]["options"]
        if what == name if how == "byName" else re.fullmatch(what, name):
            found |= {each["id"]: each["value"] for each in override["properties"]}
    return found


def _step_color(panel: Json, value: float) -> str:
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {"steps": [{"color": "blue", "value": None}]})["steps"]
    return COLORS[[step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]]


def _stat(axes: Axes, panel: Json, content: Content, scene: Scene) -> None:
    height = 1 / len(content.lines)
    for n, line in enumerate(content.lines):
        middle = 1 - (n + 0.5) * height
        if panel["options"].get("textMode") == "name":
            fill = COLORS[_overrides(panel, line.name)["color"]["fixedColor"]]
            axes.add_patch(mpl.patches.Rectangle((0, 1 - (n + 1) * height), 1, height, facecolor=fill))
            axes.text(0.5, middle, line.name, ha="center", va="center", color="white", size=13, weight="bold")
            continue
        colored = "thresholds" in panel["fieldConfig"]["defaults"]
        color = _step_color(panel, line.values[-1]) if colored else INK
        axes.text(0, middle, line.name, va="center", color=FAINT)
        text = said(line.values[-1], _unit(panel), now=scene.now)
        axes.text(1, middle, text, ha="right", va="center", size=13, color=color)


def _bars(axes: Axes, panel: Json, content: Content, scene: Scene) -> None:
    height = 1 / len(content.lines)
    for n, line in enumerate(content.lines):
        bottom, value = 1 - (n + 0.75) * height, line.values[-1]
        axes.add_patch(mpl.patches.Rectangle((0.25, bottom), 0.6, height / 2, facecolor=EDGE))
        length = 0.6 * min(1.0, value)
        axes.add_patch(mpl.patches.Rectangle((0.25, bottom), length, height / 2, facecolor=_step_color(panel, value)))
        axes.text(0, bottom + height / 4, line.name, va="center", color=FAINT)
        axes.text(1, bottom + height / 4, said(value, _unit(panel), now=scene.now), va="center", ha="right")


def _table(axes: Axes, panel: Json, content: Content, scene: Scene) -> None:
    fits = int(axes.get_window_extent().height / axes.figure.dpi / 0.19) - 1
    cells = [
        [_cell(panel, title, value, scene) for title, value in zip(content.titles, row, strict=True)]
        for row in content.rows[:fits]
    ]
    widths = [2 + max(len(row[n]) for row in [content.titles, *cells]) for n in range(len(content.titles))]
    for n in range(len(content.titles)):
        x = sum(widths[:n]) / sum(widths)
        axes.text(x, 1, content.titles[n], va="top", color=FAINT, weight="bold", size=7)
        for down, row in enumerate(cells, start=1):
            axes.text(x, 1 - down / (fits + 1), row[n], va="top", size=7)


def _cell(panel: Json, title: str, value: Any, scene: Scene) -> str:
    unit = _overrides(panel, title).get("unit", _unit(panel))
    if title == "time":
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d}"
    text = said(value, unit, now=scene.now)
    return text if len(text) <= 28 else f"{text[:25]}..."


def _text(axes: Axes, _panel: Json, content: Content, _scene: Scene) -> None:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", content.text.replace("**", "").replace("`", ""))
    wide = int(axes.get_window_extent().width / axes.figure.dpi * 15)
    lines = [part for line in plain.splitlines() for part in textwrap.wrap(line, wide) or [""]]
    axes.text(0, 1, "\n".join(lines), va="top", linespacing=1.3)


def _graph(axes: Axes, panel: Json, content: Content, scene: Scene) -> None:
    style = panel["fieldConfig"]["defaults"].get("custom", {})
    # What is never anything but 0 comes last, where the legend ends.
    drawn = {line.name: line for line in sorted(content.lines, key=lambda line: not any(line.values))}
    for name, line in drawn.items():
        own = _overrides(panel, name)
        below = own.get("custom.fillBelowTo")
        if below:
            axes.fill_between(line.times, drawn[below].values, line.values, alpha=0.2, color=CYCLE[0], linewidth=0)
        if own.get("custom.lineWidth") == 0:
            continue
        label = name if sum(1 for text in axes.get_legend_handles_labels()[1] if text) < LEGEND_LINES else None
        if style.get("drawStyle") == "bars":
            axes.bar(line.times, line.values, width=0.7, label=label)
        elif style.get("drawStyle") == "points":
            axes.plot(line.times, line.values, linestyle="", marker="o", markersize=3, label=label)
        else:
            dash = own.get("custom.lineStyle", {}).get("fill") == "dash"
            axes.plot(line.times, line.values, linestyle="--" if dash else "-", linewidth=1.1, label=label)
    more = len(content.lines) - LEGEND_LINES
    axes.legend(
        loc="upper left", ncols=3, title=f"and {more} more" if more > 0 else None, title_fontsize=6, handlelength=1.2
    )
    values = [value for line in content.lines for value in line.values if value is not None and value == value]
    limits = panel["fieldConfig"]["defaults"]
    low, high = limits.get("min", min(values)), limits.get("max", max(values))
    low = 0 if 0 < low < high / 2 else low
    room = (high - low) or abs(high) or 1
    axes.set_ylim(low - 0.05 * room * (low != 0), high + 0.35 * room)
    axes.yaxis.set_major_formatter(lambda value, _: said(value, _unit(panel), now=scene.now))
    axes.grid(axis="y", color=EDGE, linewidth=0.5)
    _timed(axes, scene)


def _timed(axes: Axes, scene: Scene) -> None:
    axes.set_xlim(date2num(scene.first), date2num(scene.now))
    axes.xaxis_date(tz=UTC)
    locator = AutoDateLocator(maxticks=8)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))
    for at, color in scene.marks:
        axes.axvline(date2num(at), color=COLORS[color], linewidth=0.9, linestyle=":")


def _states(axes: Axes, panel: Json, content: Content, scene: Scene) -> None:
    mapped = [each["options"] for each in panel["fieldConfig"]["defaults"].get("mappings", [])]
    known = sorted({str(value) for line in content.lines for value in line.values})
    for n, line in enumerate(content.lines):
        changes = [0, *(i for i in range(1, len(line.values)) if line.values[i] != line.values[i - 1])]
        for begin, end in zip(changes, [*changes[1:], None], strict=True):
            value, until = str(line.values[begin]), scene.now if end is None else line.times[end]
            color = COLORS[mapped[0][value]["color"]] if mapped else CYCLE[known.index(value) % len(CYCLE)]
            left = max(line.times[begin], scene.first)
            axes.barh(-n, date2num(until) - date2num(left), left=date2num(left), height=0.8, color=color)
            axes.text(date2num(left), -n, f" {value}", va="center", color="white", size=7, clip_on=True)
    axes.set_yticks([-n for n in range(len(content.lines))], [line.name for line in content.lines])
    _timed(axes, scene)


def _history(axes: Axes, _panel: Json, content: Content, scene: Scene) -> None:
    times = sorted({at for line in content.lines for at in line.times})
    by_item = [dict(zip(line.times, line.values, strict=True)) for line in content.lines]
    scores = [[float("nan") if row.get(at) is None else row[at] for at in times] for row in by_item]
    edges = [date2num(at) for at in (*times, times[-1] + timedelta(days=1))]
    axes.pcolormesh(edges, range(len(scores) + 1), scores, cmap="RdYlGn", vmin=0, vmax=1, rasterized=True)
    shown = max(1, len(scores) // 24)
    axes.set_yticks([n + 0.5 for n in range(0, len(scores), shown)], [line.name for line in content.lines][::shown])
    axes.invert_yaxis()
    _timed(axes, scene)


DRAW: Mapping[str, Callable[[Axes, Json, Content, Scene], None]] = {
    "stat": _stat,
    "bargauge": _bars,
    "table": _table,
    "alertlist": _table,
    "text": _text,
    "timeseries": _graph,
    "state-timeline": _states,
    "status-history": _history,
}
