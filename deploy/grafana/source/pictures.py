"""Draws the dashboards from what their own queries give on a recording: `pictures.py RECORDING OUT`.

A panel without data ends it with a sentence that names the panel.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from asking import RULES, Json, Line, Prometheus, Views, board, prometheus, sql, views
from drawing import Content, Scene, picture
from recording import Recording

from canaryd.store.engine import open_store

#: A day, which is what the dashboards show at first, and a little more, so that yesterday's run is not cut.
SPAN = timedelta(hours=26)


def draw(recording: Recording, out: Path) -> None:
    """Write one SVG for each of the four dashboards."""
    out.mkdir(parents=True, exist_ok=True)
    with prometheus(recording) as server:
        for name in ("overview", "operation"):
            shown = board("prometheus", name)
            contents = {panel["id"]: of_prometheus(server, panel) for panel in shown["panels"]}
            _write(out / f"{name}.svg", shown, contents, scene=Scene(recording.now, recording.now - SPAN))
    with open_store(recording.config.store_url) as store, store.read() as connection:
        seen = views(connection, recording)
        for name in ("series", "items"):
            shown = board("sqlite", name)
            contents = {panel["id"]: of_views(seen, panel) for panel in shown["panels"]}
            marks = [
                (datetime.fromtimestamp(row["time"], UTC), each["iconColor"])
                for each in shown["annotations"]["list"]
                for row in seen.ask(sql(each["target"]))
            ]
            for panel in shown["panels"]:
                panel["title"] = _titled(panel["title"], seen.chosen)
            _write(out / f"{name}.svg", shown, contents, scene=Scene(seen.last, seen.first, marks))


def _write(file: Path, shown: Json, contents: Mapping[int, Content], *, scene: Scene) -> None:
    empty = [panel["title"] for panel in shown["panels"] if contents[panel["id"]].is_empty]
    if empty:
        sys.exit(f"{shown['title']}: no data in {', '.join(empty)}")
    file.write_bytes(picture(shown, contents, scene=scene))


def _titled(title: str, chosen: Mapping[str, str]) -> str:
    for name, value in chosen.items():
        title = title.replace(f"${name}", value)
    return title


def of_prometheus(server: Prometheus, panel: Json) -> Content:
    """Return what a panel of Prometheus shows; the list of alerts, what the shipped rules say at that moment."""
    kind = panel["type"]
    if kind == "text":
        return Content(text=panel["options"]["content"])
    if kind == "alertlist":
        return Content(titles=["Alert", "Severity"], rows=list(_firing(server)))
    answers = [server.ask(each, span=SPAN if kind == "timeseries" else None) for each in panel["targets"]]
    if kind != "table":
        return Content(lines=[line for lines in answers for line in lines])
    names = ["Value"] if len(answers) == 1 else [f"Value #{each['refId']}" for each in panel["targets"]]
    rows = [
        {**line.labels, name: line.values[-1]} for name, lines in zip(names, answers, strict=True) for line in lines
    ]
    return _tabled(panel, rows, values=names)


def _firing(server: Prometheus) -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            if "alert" in rule and server.query(rule["expr"]):
                yield rule["alert"], rule["labels"]["severity"]


def _tabled(panel: Json, rows: Sequence[Json], *, values: Sequence[str]) -> Content:
    """Return the rows as the panel's transformations leave them: merged by labels, columns ordered, renamed, hidden."""
    merged: dict[tuple[Any, ...], Json] = {}
    for row in rows:
        key = tuple(sorted((name, value) for name, value in row.items() if name not in values))
        merged.setdefault(key, {}).update(row)
    (organized,) = [each["options"] for each in panel["transformations"] if each["id"] == "organize"]
    hidden, renamed = organized["excludeByName"], organized.get("renameByName", {})
    columns = list(dict.fromkeys(name for row in merged.values() for name in row if name not in hidden))
    order = [*organized["indexByName"], *values]
    columns.sort(key=lambda name: (name in values, order.index(name) if name in order else len(order)))
    titles = [renamed.get(name, name) for name in columns]
    return Content(titles=titles, rows=[[row.get(name, "") for name in columns] for row in merged.values()])


def of_views(seen: Views, panel: Json) -> Content:
    """Return what a panel of a store shows."""
    (target,) = panel["targets"]
    rows = seen.ask(sql(target))
    if panel["type"] == "table":
        return Content(titles=list(rows[0]) if rows else [], rows=[list(row.values()) for row in rows])
    split = [each["options"]["fields"][0] for each in panel["transformations"] if each["id"] == "partitionByValues"]
    points: dict[str, list[tuple[datetime, Any]]] = {}
    for row in rows:
        at = datetime.fromtimestamp(row.pop("time"), UTC)
        named = {row.pop(split[0]): next(iter(row.values()))} if split else row
        for name, value in named.items():
            points.setdefault(name, []).append((at, value))
    lines = [Line(name, {}, [at for at, _ in found], [value for _, value in found]) for name, found in points.items()]
    return Content(lines=[line for line in lines if any(value is not None for value in line.values)])


if __name__ == "__main__":
    draw(Recording(Path(sys.argv[1])), Path(sys.argv[2]))
