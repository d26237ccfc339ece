"""Every query of the dashboards gives rows on the quick demo's play: SQL on both databases, PromQL in Prometheus."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pictures
import pytest
import yaml
from asking import DASHBOARDS, RULES, Prometheus, Views, board, prometheus, sql, views
from recording import Recording
from sqlalchemy import Connection, text

from canaryd.store import read
from canaryd.store.engine import open_store
from canaryd.store.transfer import export_jsonl, import_jsonl

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "grafana"
BOARDS = {"overview": "prometheus", "operation": "prometheus", "series": "sqlite", "items": "sqlite"}
VIEWS = (
    "v_alarm_event",
    "v_window_stat",
    "v_run",
    "v_arm_day",
    "v_item_day",
    "v_model_resolution",
    "v_failed_sample",
    "v_event",
)
DAILY = "Mean score of a day"
#: What the rules say of the play at the moment of looking, and of what the recording adds to it.
FIRING = {
    "CanarydRegressionDeclared",
    "CanarydTokenShift",
    "CanarydUnderpowered",
    "CanarydResolvedModelChanged",
    "CanarydInputTokensChanged",
    "CanarydArmEvent",
    "CanarydHarnessDriftRefused",
    "CanarydAcknowledged",
    "CanarydWatchdog",
}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, installed: Callable[..., str]) -> Recording:
    """Return the recording of the quick demo, made in a process of its own."""
    installed("prometheus")
    installed("promtool")
    made = Recording(tmp_path_factory.mktemp("recording"))
    source = ROOT / "deploy" / "grafana" / "source" / "recording.py"
    subprocess.run([sys.executable, source, made.folder, "--quick"], check=True)
    return made


@pytest.fixture(scope="module")
def server(recording: Recording) -> Iterator[Prometheus]:
    with prometheus(recording) as running:
        yield running


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def connection(request: pytest.FixtureRequest, recording: Recording) -> Iterator[Connection]:
    """Yield a reader of the recorded store, and of a PostgreSQL store that its export was read into."""
    with open_store(recording.config.store_url) as store:
        if request.param == "sqlite":
            with store.read() as reading:
                yield reading
            return
        with store.read() as reading:
            lines = list(export_jsonl(reading, "demo", with_texts=False))
    template = request.getfixturevalue("migrated_database")
    with open_store(request.getfixturevalue("new_postgres_database")(template)) as store:
        import_jsonl(store, lines, now=recording.now)
        with store.read() as reading:
            yield reading


@pytest.fixture
def seen(connection: Connection, recording: Recording) -> Views:
    return views(connection, recording)


def queries() -> Iterator[tuple[str, str, str]]:
    """Yield dashboard, place and SQL of every query, as PostgreSQL and the SQLite plugin both get it."""
    for name in ("series", "items"):
        shown = board("sqlite", name)
        for panel in shown["panels"]:
            for target in panel["targets"]:
                yield name, panel["title"], sql(target)
        for mark in shown["annotations"]["list"]:
            yield name, mark["name"], sql(mark["target"])
        for variable in shown["templating"]["list"]:
            if variable["type"] == "query":
                yield name, variable["name"], variable["query"]


def test_both_databases_are_asked_the_same() -> None:
    for path in (DASHBOARDS / "postgres").glob("*.json"):
        of_postgres = re.findall(r'"(?:rawSql|query)": "(?!grafana)([^"]*)"', path.read_text())
        of_sqlite = re.findall(
            r'"(?:queryText|query)": "(?!frser)([^"]*)"', (DASHBOARDS / "sqlite" / path.name).read_text()
        )
        assert of_postgres == of_sqlite


def test_every_sql_query_gives_rows_and_one_of_a_graph_a_time_with_figures(seen: Views) -> None:
    asked = list(queries())
    assert len(asked) > 20
    found = {(name, place): seen.ask(query) for name, place, query in asked}
    assert [where for where, rows in found.items() if not rows] == []
    for where, rows in found.items():
        if "time" in rows[0]:
            assert all(isinstance(row["time"], int) for row in rows), where
            assert any(row[name] is not None for row in rows for name in row if name != "time"), where


def panel_query(title: str) -> str:
    return next(sql(panel["targets"][0]) for panel in board("sqlite", "series")["panels"] if panel["title"] == title)


def test_every_control_is_shown_and_every_model_of_a_partial_roll(seen: Views) -> None:
    at = int(seen.first.timestamp()) + 86400
    arms = [("tracked", "tracked"), ("one", "control"), ("two", "control"), ("again", "replica")]
    days = ", ".join(f"('demo', '{arm}', '{role}', {at}, 0.{n + 1})" for n, (arm, role) in enumerate(arms))
    found = seen.ask(f"WITH v_arm_day(series, arm, role, time, score) AS (VALUES {days}) {panel_query(DAILY)}")
    assert [(row["arm"], float(row["score"])) for row in found] == [("tracked", 0.1), ("one", 0.2), ("two", 0.3)]
    answered = {"tracked": ["m-2", "m-1", "m-2"], "one": ["m-1"], "two": ["b", "d", "c", "a"]}
    names = ", ".join(
        f"('demo', '{arm}', '{dict(arms)[arm]}', {at}, '{model}')"
        for arm, models in answered.items()
        for model in models
    )
    columns = "series, arm, role, time, resolved_model"
    found = seen.ask(f"WITH v_model_resolution({columns}) AS (VALUES {names}) {panel_query('Who answered')}")
    assert [(row["arm"], row["models"]) for row in found] == [
        ("tracked", "m-1 and m-2"),
        ("one", "m-1"),
        ("two", "a, d and 2 more"),
    ]


def test_every_promql_query_gives_figures(server: Prometheus) -> None:
    asked = {
        (name, panel["title"], target["refId"]): server.ask(
            target, span=timedelta(days=1) if panel["type"] == "timeseries" else None
        )
        for name in ("overview", "operation")
        for panel in board("prometheus", name)["panels"]
        for target in panel["targets"]
    }
    assert len(asked) > 30
    figures = {where: [value for line in lines for value in line.values] for where, lines in asked.items()}
    # A quantile of no requests is NaN.
    assert [where for where, values in figures.items() if not any(value == value for value in values)] == []


def test_every_variable_of_prometheus_has_a_value_to_choose(server: Prometheus) -> None:
    for name in ("overview", "operation"):
        for variable in board("prometheus", name)["templating"]["list"]:
            if variable["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()
                assert all(line.labels[label] for line in server.query(metric)), variable["name"]


def test_the_rules_find_what_they_read_and_fire_for_what_the_play_has_alone(server: Prometheus) -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    read_by_rules = {
        selector
        for rule in rules
        for selector in re.findall(r"\b(?:canaryd_\w+|up)(?![\w:])(?:\{[^}]*\})?", rule["expr"])
    }
    assert len(read_by_rules) > 20
    missing = {each for each in read_by_rules if not server.query(f"last_over_time({each}[2d])")}
    assert missing == set()
    answers = {rule.get("alert") or rule["record"]: server.query(rule["expr"]) for rule in rules}
    assert {name for name, found in answers.items() if found and name.startswith("Canaryd")} == FIRING
    assert all(answers[rule["record"]] for rule in rules if "record" in rule)


def test_a_picture_shows_every_panel_of_a_dashboard_and_the_documented_one_does_too(
    recording: Recording, tmp_path: Path
) -> None:
    pictures.draw(recording, tmp_path)
    for name, source in BOARDS.items():
        drawn, documented = ((folder / f"{name}.svg").read_text() for folder in (tmp_path, DOCS))
        for panel in board(source, name)["panels"]:
            title = panel["title"].partition("$")[0]
            assert f">{title}" in drawn, (name, title)
            assert f">{title}" in documented, f"draw docs/grafana/{name}.svg anew: it lacks {title!r}"


def test_a_panel_without_data_is_named(recording: Recording, tmp_path: Path) -> None:
    shutil.copytree(recording.project, tmp_path / "project")
    blocks = min((each for each in recording.blocks.iterdir() if each.is_dir()), key=lambda each: each.name)
    shutil.copytree(blocks, tmp_path / "prometheus" / blocks.name)
    with pytest.raises(SystemExit, match=r"canaryd overview: no data in State, "):
        pictures.draw(Recording(tmp_path), tmp_path / "out")


def test_the_views_say_what_the_verdict_said(connection: Connection) -> None:
    (verdict,) = [each.verdict for each in read.verdicts(connection, "demo") if each.verdict.window_index == 4]
    found = connection.execute(text("SELECT * FROM v_window_stat WHERE window_index = 4")).mappings().all()
    by_role = {row["role"]: row for row in found}
    tracked, control = by_role["tracked"], by_role["control"]
    estimate, clauses = verdict.clauses["window"]["estimate"], verdict.clauses
    assert (tracked["verdict"], tracked["direction"], tracked["window_state"]) == ("change", "down", "hit_down")
    assert [tracked[name] for name in ("delta", "ci_lower", "ci_upper")] == [estimate["delta"], *estimate["ci"]]
    assert (tracked["standard_error"], tracked["threshold"]) == (estimate["se"], 0.03)
    assert (tracked["mde"], control["mde"]) == (clauses["mde"]["two_windows"], None)
    assert (tracked["first_date"], tracked["last_date"]) == (clauses["first"], clauses["last"])
    assert datetime.fromtimestamp(tracked["time"], UTC).date().isoformat() == clauses["last"]
    assert control["delta"] == clauses["controls"]["control"]["window"]["estimate"]["delta"]
    difference = clauses["attribution"]["controls"]["control"]["difference"]
    assert [control[f"difference{end}"] for end in ("", "_ci_lower", "_ci_upper")] == [
        difference["delta"],
        *difference["ci_item"],
    ]
    assert tracked["tokens_change"] == clauses["arms"]["tracked"]["tokens"]["change"]
    assert tracked["baseline_score"] == clauses["arms"]["tracked"]["headroom"]["mean"]


def test_a_day_counts_what_is_valid_and_says_what_is_not(connection: Connection) -> None:
    query = "SELECT * FROM v_arm_day WHERE time = (SELECT MIN(time) FROM v_arm_day)"
    days = connection.execute(text(query)).mappings().all()
    assert sorted((day["samples"], day["graded"], day["invalid"]) for day in days) == [(24, 23, 1), (24, 24, 0)]
    (bad,) = connection.execute(text("SELECT * FROM v_failed_sample")).mappings().all()
    assert (bad["slot_date"], bad["reason"]) == ("2027-01-01", "operator")
    with_role = connection.execute(text("SELECT DISTINCT role, resolved_model FROM v_model_resolution")).all()
    assert len(with_role) == 2


def test_the_views_are_all_there_and_hold_no_prompt_and_no_answer(connection: Connection) -> None:
    columns = {view: set(connection.execute(text(f"SELECT * FROM {view}")).keys()) for view in VIEWS}
    assert all("series" in names and "time" in names for names in columns.values())
    assert not {"text_digest", "grade_detail", "body", "failure_detail"} & set().union(*columns.values())
