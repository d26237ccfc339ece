"""The shipped dashboards: what Grafana's dashboard-linter asks for, and every PromQL query past the real parser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard

from canaryd.metrics.catalogue import METRICS, PREFIX

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "deploy" / "grafana"
PLUGINS = {
    "prometheus": "prometheus",
    "postgres": "grafana-postgresql-datasource",
    "sqlite": "frser-sqlite-datasource",
}
FILES = sorted((GRAFANA / "dashboards").rglob("*.json"))
BOARDS: dict[Path, dict[str, Any]] = {path: json.loads(path.read_text()) for path in FILES}
PROMQL = [
    (board["uid"], panel["title"], target)
    for path, board in BOARDS.items()
    if path.parent.name == "prometheus"
    for panel in board["panels"]
    for target in panel["targets"]
]
#: Panels that show no data: the list of alerts, and a text.
WITHOUT_QUERY = {"alertlist", "text"}

register_default_plugins()
each_board = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


def test_the_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, GRAFANA / "source" / "generate.py", tmp_path], check=True)
    written = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.json")}
    assert {path.relative_to(GRAFANA / "dashboards"): path.read_text() for path in FILES} == written


def test_there_are_four_dashboards_for_either_store() -> None:
    for store in ("postgres", "sqlite"):
        uids = {board["uid"] for path, board in BOARDS.items() if path.parent.name in {"prometheus", store}}
        assert uids == {f"canaryd-{name}" for name in ("overview", "series", "operation", "items")}


@each_board
def test_grafanas_own_model_takes_every_key_of_a_dashboard(path: Path) -> None:
    read = dashboard.Dashboard.from_json(BOARDS[path])
    written = json.loads(json.dumps(read, cls=JSONEncoder))
    # An annotation's query belongs to its data source, and its model keeps what it does not know nowhere; the text of a
    # variable's query is for people; a dashboard that is not in a database has no id.
    elsewhere = re.compile(r"\.id|\.templating\.list\[\d+\]\.definition|\.annotations\.list\[\d+\]\.target\..*")
    assert [key for key in _lost(BOARDS[path], written) if not elsewhere.fullmatch(key)] == []


def test_a_misspelt_option_of_a_panel_is_noticed() -> None:
    board = json.loads(FILES[0].read_text())
    board["panels"][0]["fieldConfig"]["defaults"]["decimal"] = 1
    read = dashboard.Dashboard.from_json(board)
    lost = list(_lost(board, json.loads(json.dumps(read, cls=JSONEncoder))))
    assert ".panels[0].fieldConfig.defaults.decimal" in lost


def _lost(given: Any, kept: Any, place: str = "") -> Iterator[str]:
    """Yield the place of each value that is not there any more, or is another one."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            if key in kept:
                yield from _lost(value, kept[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}"
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for number, (value, other) in enumerate(zip(given, kept, strict=True)):
            yield from _lost(value, other, f"{place}[{number}]")
    elif given != kept:
        yield place


@each_board
def test_a_dashboard_can_be_provisioned_and_not_edited(path: Path) -> None:
    board = BOARDS[path]
    assert board["id"] is None
    assert board["editable"] is False
    assert isinstance(board["schemaVersion"], int)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@each_board
def test_every_query_goes_to_the_one_data_source_that_is_chosen(path: Path) -> None:
    board, plugin = BOARDS[path], PLUGINS[path.parent.name]
    sources = [each for each in board["templating"]["list"] if each["type"] == "datasource"]
    assert [(each["name"], each["label"], each["query"]) for each in sources] == [("datasource", "Data Source", plugin)]
    chosen = {"type": plugin, "uid": "${datasource}"}
    places = [
        *board["panels"],
        *(target for panel in board["panels"] for target in panel["targets"]),
        *board["annotations"]["list"],
        *(each for each in board["templating"]["list"] if each["type"] == "query"),
    ]
    assert all(place["datasource"] == chosen for place in places)


@each_board
def test_every_panel_has_a_title_a_description_a_unit_and_a_query(path: Path) -> None:
    for panel in BOARDS[path]["panels"]:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert bool(panel["targets"]) != (panel["type"] in WITHOUT_QUERY), panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@each_board
def test_panels_stand_on_the_grid_and_never_on_one_another(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARDS[path]["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.parent.name == "prometheus"], ids=lambda path: path.stem
)
def test_job_and_instance_can_be_chosen(path: Path) -> None:
    variables = {each["name"]: each for each in BOARDS[path]["templating"]["list"]}
    for name in ("job", "instance"):
        each = variables[name]
        assert (each["multi"], each["includeAll"], each["allValue"], each["refresh"]) == (True, True, ".+", 2)


@pytest.mark.parametrize(("board", "title", "target"), PROMQL, ids=[f"{b}-{t}-{q['refId']}" for b, t, q in PROMQL])
def test_a_promql_query_selects_what_is_chosen_and_treats_counters_as_such(board: str, title: str, target: Any) -> None:
    query = target["expr"]
    for metric, selector in re.findall(r"\b((?:canaryd|process)_\w+)(\{[^}]*\})?", query):
        assert 'job=~"$job"' in selector, metric
        assert 'instance=~"$instance"' in selector, metric
    for metric in re.findall(r"\b\w+_(?:total|bucket)\b", query):
        assert re.search(rf"(?:rate|increase)\({metric}\{{[^}}]*\}}\[[^]]+\]\)", query), metric


def test_rules_of_the_linter_that_are_not_kept_are_listed_with_a_reason() -> None:
    excluded = {
        source: yaml.safe_load((GRAFANA / "dashboards" / source / ".lint").read_text())["exclusions"]
        for source in PLUGINS
    }
    assert all(rule["reason"].endswith(".") for rules in excluded.values() for rule in rules.values())
    (alone,) = excluded["prometheus"].values()
    fixed = {
        (board.replace("-", " "), title)
        for board, title, target in PROMQL
        for window in re.findall(r"(?:rate|increase)\([^[]*\[([^]]+)\]", target["expr"])
        if window != "$__rate_interval"
    }
    assert fixed == {(each["dashboard"], each["panel"]) for each in alone["entries"]}


def metrics_of(query: str) -> Iterator[str]:
    for name in re.findall(r"\bcanaryd_\w+(?=\{)", query):
        yield re.sub("_bucket$", "", name)


def test_dashboards_name_only_metrics_that_are_exported_and_labels_that_they_have() -> None:
    exposed = {PREFIX + metric.name: metric for metric in METRICS}
    for _, title, target in PROMQL:
        found = list(metrics_of(target["expr"]))
        assert set(found) <= set(exposed), title
        known = {label for name in found for label in exposed[name].labels} | {"job", "instance", "le"}
        for labels in re.findall(r"(?:by|on) \(([^)]*)\)", target["expr"]):
            assert {label.strip() for label in labels.split(",")} <= known, title
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= known, title


def test_prometheus_parses_every_query(installed: Callable[..., str], tmp_path: Path) -> None:
    rules = [
        {"record": f"dashboard:query:{number}", "expr": target["expr"].replace("$__rate_interval", "5m")}
        for number, (_, _, target) in enumerate(PROMQL)
    ]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    done = subprocess.run([installed("promtool"), "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(PROMQL)} rules found" in done.stdout


def test_no_dashboard_asks_for_prompts_or_answers() -> None:
    for path, board in BOARDS.items():
        text = json.dumps(board)
        assert not re.search(r"\b(FROM|JOIN) (?!v_|\()", text.replace("DISTINCT FROM", "")), path


@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_what_grafana_is_told_names_folders_and_plugins_that_are_used(store: str) -> None:
    folder = GRAFANA / "provisioning" / store
    sources = yaml.safe_load((folder / "datasources" / "canaryd.yml").read_text())["datasources"]
    assert [each["type"] for each in sources] == ["prometheus", PLUGINS[store]]
    providers = yaml.safe_load((folder / "dashboards" / "canaryd.yml").read_text())["providers"]
    for provider in providers:
        assert provider["allowUiUpdates"] is False
        assert (GRAFANA / provider["options"]["path"].removeprefix("/usr/share/canaryd/grafana/")).is_dir()
