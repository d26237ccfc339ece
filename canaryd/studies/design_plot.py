"""The picture of a design: what a budget buys, as SVG; the same design gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any


def design_svg(design: Mapping[str, Any], *, target: float) -> bytes:
    """Return the smallest change that the rule sees against the number of items, a line for each rate of samples.

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
        for rate in sorted({row["per_day"] for row in design["purchases"]}):
            rows = [row for row in design["purchases"] if row["per_day"] == rate]
            sees = [100 * row["mde"]["two_windows"] for row in rows]
            axes.plot([row["items"] for row in rows], sees, marker="o", label=f"{rate} a day of each item")
        axes.axhline(100 * target, color="#333333", linewidth=0.8, linestyle="--", label="registered target")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("items")
        axes.set_ylabel("smallest change that the rule sees, points")
        axes.legend(frameon=False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "canaryd"})
    return buffer.getvalue()
