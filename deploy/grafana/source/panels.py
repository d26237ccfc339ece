"""The pieces of a dashboard in Grafana's classic JSON, and where panels stand on its grid of 24 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

SCHEMA_VERSION = 39
COLUMNS = 24
PLUGINS = {
    "prometheus": "prometheus",
    "postgres": "grafana-postgresql-datasource",
    "sqlite": "frser-sqlite-datasource",
}
#: What a query writes for the selector that every one of them has.
SELECTOR = 'job=~"$job", instance=~"$instance"'
FROM_TO = "time BETWEEN ${__from:date:seconds} AND ${__to:date:seconds}"


@dataclass(frozen=True)
class Panel:
    """One panel; `queries` are PromQL or SQL, by the legend or name that each gets."""

    kind: str
    title: str
    text: str
    queries: Mapping[str, str] = field(default_factory=dict)
    unit: str = "short"
    width: int = 12
    height: int = 8
    custom: Json = field(default_factory=dict)
    overrides: Sequence[Json] = ()
    options: Json = field(default_factory=dict)
    transformations: Sequence[Json] = ()
    repeat: str | None = None


def datasource(source: str) -> Json:
    """Return the reference to the data source that the variable chooses."""
    return {"type": PLUGINS[source], "uid": "${datasource}"}


def target(query: str, *, source: str, ref: str, legend: str = "", is_table: bool = False) -> Json:
    """Return a query as its data source wants it."""
    base: Json = {"refId": ref, "datasource": datasource(source)}
    if source == "prometheus":
        shape = {"format": "table", "instant": True} if is_table else {"range": True}
        return base | {"expr": promql(query), "legendFormat": legend} | shape
    if source == "postgres":
        return base | {"format": "table", "rawQuery": True, "rawSql": query}
    return base | {"queryType": "table", "queryText": query, "rawQueryText": query, "timeColumns": ["time"]}


def promql(query: str) -> str:
    """Return a query with the selector of job and instance at each `{@`."""
    return query.replace("{@", "{" + SELECTOR)


def named(name: str, **properties: Any) -> Json:
    """Return an override of the field with this name."""
    return _override("byName", name, properties)


def like(pattern: str, **properties: Any) -> Json:
    """Return an override of the fields whose names match."""
    return _override("byRegexp", pattern, properties)


def _override(how: str, what: str, properties: Mapping[str, Any]) -> Json:
    values = [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()]
    return {"matcher": {"id": how, "options": what}, "properties": values}


def band(lower: str, upper: str) -> list[Json]:
    """Return the overrides that fill the space between two lines, which are not drawn themselves."""
    return [
        named(lower, custom__lineWidth=0),
        named(upper, custom__lineWidth=0, custom__fillBelowTo=lower, custom__fillOpacity=20),
    ]


def dashboard(
    title: str, panels: Sequence[Panel], *, source: str, variables: Sequence[Json], annotations: Sequence[Json] = ()
) -> Json:
    """Return a whole dashboard, named after its title ("canaryd overview" has the uid canaryd-overview)."""
    uid = title.replace(" ", "-")
    return {
        "id": None,
        "uid": uid,
        "title": title,
        "tags": ["canaryd"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "timezone": "utc",
        "refresh": "1m" if source == "prometheus" else "",
        "time": {"from": "now-24h" if source == "prometheus" else "now-180d", "to": "now"},
        "links": [
            {"type": "dashboards", "title": "canaryd", "tags": ["canaryd"], "asDropdown": True, "keepTime": False}
        ],
        "templating": {"list": [_choose_source(source), *variables]},
        "annotations": {"list": list(annotations)},
        "panels": _placed(panels, source=source),
    }


def _choose_source(source: str) -> Json:
    return {"type": "datasource", "name": "datasource", "label": "Data Source", "query": PLUGINS[source]}


def label_variable(name: str, metric: str) -> Json:
    """Return the variable of a label's values, of which several may be chosen."""
    return {
        "type": "query",
        "name": name,
        "label": name.capitalize(),
        "datasource": datasource("prometheus"),
        "query": {"query": f"label_values({metric}, {name})", "refId": name},
        "definition": f"label_values({metric}, {name})",
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def sql_variable(name: str, query: str, *, source: str, is_multi: bool = False) -> Json:
    """Return the variable whose values are the one column of a query: all of them chosen at first, or one at a time."""
    at_first = {"current": {"text": "All", "value": "$__all"}} if is_multi else {}
    return {
        "type": "query",
        "name": name,
        "label": name.capitalize(),
        "datasource": datasource(source),
        "query": query,
        "definition": query,
        "refresh": 2,
        "sort": 0,
        "multi": is_multi,
        "includeAll": is_multi,
        **at_first,
    }


def annotation(name: str, query: str, *, source: str, color: str) -> Json:
    """Return marks on every graph of a dashboard."""
    return {
        "name": name,
        "datasource": datasource(source),
        "enable": True,
        "iconColor": color,
        "target": target(query, source=source, ref="Anno"),
    }


def _placed(panels: Sequence[Panel], *, source: str) -> list[Json]:
    """Return the panels from left to right, a new row where one does not fit any more."""
    found, x, y, row_height = [], 0, 0, 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        found.append(_panel(panel, number=number, source=source) | {"gridPos": _place(panel, x, y=y)})
        x, row_height = x + panel.width, max(row_height, panel.height)
    return found


def _place(panel: Panel, x: int, *, y: int) -> Json:
    return {"x": x, "y": y, "w": panel.width, "h": panel.height}


def _panel(panel: Panel, *, number: int, source: str) -> Json:
    queries = enumerate(panel.queries.items())
    made: Json = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": datasource(source),
        "targets": [
            target(query, source=source, ref=chr(ord("A") + n), legend=legend, is_table=panel.kind == "table")
            for n, (legend, query) in queries
        ],
        "fieldConfig": {
            "defaults": {"unit": panel.unit, **panel.custom},
            "overrides": list(panel.overrides),
        },
        "options": panel.options,
        "transformations": list(panel.transformations),
    }
    if panel.repeat is not None:
        made |= {"repeat": panel.repeat, "repeatDirection": "v"}
    return made
