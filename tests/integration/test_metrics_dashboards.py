"""Every SQL query of the dashboards gives rows, and the same ones, on both databases: on the quick demo's play."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from canaryd.demo.plan import QUICK
from canaryd.demo.play import play, write_project
from canaryd.records import RunEnd, RunStart
from canaryd.store import read
from canaryd.store.engine import Store, open_store
from canaryd.store.events import Event, add_events
from canaryd.store.lease import LeasePolicy, acquire_lease
from canaryd.store.process import is_alive, this_process
from canaryd.store.rows import Invalid
from canaryd.store.transfer import export_jsonl, import_jsonl
from canaryd.store.write import append_validity, claim_slot, end_run

DASHBOARDS = Path(__file__).parents[2] / "deploy" / "grafana" / "dashboards"
AFTER = datetime(2027, 1, 19, 3, 10, tzinfo=UTC)
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
CHOSEN = {
    "${series:sqlstring}": "'demo'",
    "${control:sqlstring}": "'control'",
    "${before:sqlstring}": "'2027-01-01/2027-01-06'",
    "${after:sqlstring}": "'2027-01-16/2027-01-18'",
    "${item:sqlstring}": "'tracing-L4-01'",
    "${__from:date:seconds}": str(int(datetime(2026, 12, 1, tzinfo=UTC).timestamp())),
    "${__to:date:seconds}": str(int(datetime(2027, 2, 1, tzinfo=UTC).timestamp())),
}


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the export of the quick demo, to which a roll, an invalid sample and another harness were added."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    plan = replace(QUICK, port=port)
    config = write_project(plan, tmp_path_factory.mktemp("demo") / "project")
    play(plan, config, on_day=lambda _day: None)
    policy = LeasePolicy(timedelta(seconds=90), is_alive)
    with open_store(config.store_url) as store:
        lease = acquire_lease(store, "demo", holder=this_process(), now=AFTER, policy=policy)
        add_events(store, [Event("demo", "tracked", date(2027, 1, 10), "model_roll", {}, AFTER)], lease=lease)
        with store.read() as connection:
            series = read.series(connection, "demo")
        append_validity(store, Invalid("operator", "", AFTER, sample_id=1))
        digests = (series.panel_digest, series.registration_digest)
        start = RunStart("demo", "tracked", AFTER.date(), 1, AFTER, AFTER, *digests, "sha256:another")
        (run,) = claim_slot(store, [start], lease=lease, epoch=1)  # type: ignore[misc]
        end_run(store, RunEnd(AFTER, "incomplete", "why"), run_id=run.run_id, lease=lease)
        with store.read() as connection:
            return list(export_jsonl(connection, "demo", with_texts=False))


@pytest.fixture
def connection(store: Store, played: list[str]) -> Iterator[Connection]:
    import_jsonl(store, played, now=AFTER)
    with store.read() as reading:
        yield reading


def queries() -> Iterator[tuple[str, str, str]]:
    """Yield dashboard, place and SQL of every query, as PostgreSQL and the SQLite plugin both get it."""
    for path in sorted((DASHBOARDS / "sqlite").glob("*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield path.stem, panel["title"], target["queryText"]
        for mark in board["annotations"]["list"]:
            yield path.stem, mark["name"], mark["target"]["queryText"]
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield path.stem, variable["name"], variable["query"]


def rows(connection: Connection, query: str) -> list[Any]:
    for name, value in CHOSEN.items():
        query = query.replace(name, value)
    assert "$" not in query
    return [dict(row) for row in connection.exec_driver_sql(query).mappings()]


def test_both_databases_are_asked_the_same() -> None:
    for path in (DASHBOARDS / "postgres").glob("*.json"):
        of_postgres = re.findall(r'"(?:rawSql|query)": "(?!grafana)([^"]*)"', path.read_text())
        of_sqlite = re.findall(
            r'"(?:queryText|query)": "(?!frser)([^"]*)"', (DASHBOARDS / "sqlite" / path.name).read_text()
        )
        assert of_postgres == of_sqlite


def test_every_query_gives_rows(connection: Connection) -> None:
    asked = list(queries())
    assert len(asked) > 20
    empty = [(board, place) for board, place, query in asked if not rows(connection, query)]
    assert empty == []


def test_every_query_of_a_graph_has_its_time_and_figures(connection: Connection) -> None:
    for board, place, query in queries():
        found = rows(connection, query)
        if "time" in found[0]:
            assert all(isinstance(row["time"], int) for row in found), (board, place)
            others = [row[name] for row in found for name in row if name != "time"]
            assert any(value is not None for value in others), (board, place)


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
