"""The picture of a design: what a budget buys, as SVG; the same design gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any


def design_svg(design: Mapping[str, Any], *, target: float) -> bytes:
    """Return the smallest change that the rule sees against the calls of a window, a line for each number of items.

    `design` is the JSON form, `target` the registered smallest change one wants to see, as a fraction.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {"svg.hashsalt": "canaryd", "svg.fonttype": "none", "font.family": "sans-serif"}
    with mpl.rc_context(style):
        figure = Figure(figsize=(8, 5), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        for items in sorted({row["items"] for row in design["purchases"]}):
            rows = [row for row in design["purchases"] if row["items"] == items]
            calls = [row["calls_per_window"] for row in rows]
            axes.plot(calls, [100 * row["mde"]["two_windows"] for row in rows], marker="o", label=f"{items} items")
        axes.axhline(100 * target, color="#333333", linewidth=0.8, linestyle="--", label="registered target")
        axes.set_xscale("log")
        axes.set_xlabel("calls of one arm in a window")
        axes.set_ylabel("smallest change that the rule sees, points")
        axes.legend(frameon=False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "canaryd"})
    return buffer.getvalue()
