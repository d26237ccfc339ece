"""`canaryd report` as its user runs it: its numbers are those of `status`, `check` and `metrics`."""

import re
import shutil
from pathlib import Path
from typing import Any

from canaryd.wording import change


def cells(markdown: str, first: str) -> list[str]:
    """Return the cells of the first row of a table that begins with a given cell."""
    line = next(line for line in markdown.splitlines() if line.startswith(f"| {first} |"))
    return [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[2:-1]]


def test_report_status_check_and_metrics_give_the_same_numbers(canaryd: Any, quick_play: Path, tmp_path: Path) -> None:
    shutil.copytree(quick_play, tmp_path / "played")
    config = ("--config", "played/config.toml")
    written = canaryd(*config, "report", "--out", "reports")
    assert written.code == 0, written.err
    check = canaryd(*config, "check", "--json").json
    (series,) = canaryd(*config, "status", "--json").json["series"]
    page, markdown = ((tmp_path / "reports" / f"demo.{end}").read_text() for end in ("html", "md"))

    assert written.out.splitlines()[0] == check["sentence"]
    assert f"\n**{check['sentence']}**\n" in markdown
    assert check["sentence"] in page
    window = series["window"]
    assert window["verdict"] == check["verdict"] == "change"
    tracked, control = window["arms"]

    def points(value: float) -> str:
        return f"{100 * value:+.1f}"

    def interval(arm: dict[str, float], kind: str) -> str:
        return f"[{points(arm[kind + 'ci_lower'])}, {points(arm[kind + 'ci_upper'])}]"

    _, verdict, call, *figures = cells(markdown, f"window {window['index']}")
    assert (verdict, call) == ("change", change(check["direction"], check["attribution"]))
    assert figures == [points(tracked["delta"]), interval(tracked, ""), f"{100 * window['mde']:.1f}"]
    both = markdown[markdown.index("*Delta by window") :]
    assert cells(both, f"window {window['index']}") == [
        f"{points(arm['delta'])} {interval(arm, '')}" for arm in (tracked, control)
    ]
    assert cells(markdown, "tracked")[:3] == [
        tracked["token_state"],
        points(tracked["token_change"]),
        interval(tracked, "token_"),
    ]
    metrics = canaryd(*config, "metrics").out
    for name, value in (
        ('window_delta_ratio{arm="tracked"', tracked["delta"]),
        ('window_delta_ci_lower_ratio{arm="tracked"', tracked["ci_lower"]),
        ('window_delta_ci_upper_ratio{arm="control"', control["ci_upper"]),
        ('window_mde_ratio{arm="tracked"', window["mde"]),
    ):
        assert f'canaryd_{name},series="demo",window="latest"}} {value}\n' in metrics
    for stream in series["early_warnings"]:
        assert (
            cells(markdown[markdown.index("*Early warning on") :], stream["stream"])[1] == f"{stream['threshold']:.0f}"
        )


def test_a_series_that_does_not_exist_is_refused(canaryd: Any) -> None:
    assert canaryd("init", "p").code == 0
    assert canaryd("--config", "p/config.toml", "report", "--series", "other").code == 64
