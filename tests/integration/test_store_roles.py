"""The roles of a PostgreSQL store, tried as those who hold them; the public views are the same on both databases."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url, text

from canaryd.errors import StoreUnavailable
from canaryd.records import Alarm, Failure, RunEnd
from canaryd.store import harness, samples, schema
from canaryd.store.engine import Store, open_store
from canaryd.store.ledger import first_difference
from canaryd.store.migrate import downgrade, upgrade
from canaryd.store.retention import expire_texts
from canaryd.store.roles import PUBLIC_VIEWS, roles_sql
from canaryd.store.rows import Invalid, Span
from canaryd.store.write import append_alarm, append_samples, append_validity, end_run

ROOT = Path(__file__).parents[2]
AT = datetime(2030, 1, 5, tzinfo=UTC)


def give_roles(url: str) -> None:
    """Run the SQL as the superuser, the second time without effect."""
    admin = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(admin) as connection:
        for _ in range(2):
            connection.execute(roles_sql())


def as_role(url: str, role: str) -> str:
    return make_url(url).set(username=role).render_as_string(hide_password=False)


@pytest.fixture
def url(new_postgres_database: Callable[..., str], migrated_database: str) -> str:
    """Return a store whose roles are set up."""
    found = new_postgres_database(migrated_database)
    give_roles(found)
    return found


def measured(store: Store, study: Any) -> None:
    """Fill a store as a day does, with each kind of write."""
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    said = [study.sample(run, "a", 1.0), study.sample(run, "b", Failure("timeout", "")), study.sample(run, "d", 0.0)]
    ids = append_samples(store, said, run_id=run.run_id, lease=lease)
    harness.keep_usage(store, harness.Spending(2, 30, 4), run_id=run.run_id, lease=lease)
    end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lease)
    append_validity(store, Invalid("operator", "", study.now, sample_id=ids[0]))
    append_alarm(store, Alarm("s", "ok", study.now, None), lease=lease)


def test_the_daemons_role_measures_and_cannot_change_what_it_wrote(url: str, study: Any) -> None:
    with open_store(as_role(url, "canaryd")) as store:
        measured(store, study)
        with store.read() as connection:
            assert first_difference(connection, "s") is None
            assert len(samples.samples(connection, Span("s", "old", study.day_1, study.day_1))) == 2
        assert expire_texts(store, "s", before=study.day_1.replace(year=2040), now=AT) == 2
        for statement in (
            "CREATE TABLE mine (x integer)",
            "DROP TABLE sample",
            "ALTER TABLE sample DISABLE TRIGGER ALL",
            "DROP TRIGGER sample_append_only ON sample",
            "CREATE OR REPLACE FUNCTION canaryd_append_only() RETURNS trigger LANGUAGE sql AS 'SELECT NULL'",
            "UPDATE sample SET score = 1",
            "DELETE FROM sample",
            "TRUNCATE sample CASCADE",
            "UPDATE alembic_version SET version_num = '0001'",
            "SET session_replication_role = replica",
        ):
            with (
                pytest.raises(StoreUnavailable, match=r"(permission denied|must be owner) .*; \w+ .*store\.url"),
                store.write() as connection,
            ):
                connection.execute(text(statement))


def test_the_readers_role_reads_the_views_and_nothing_else(url: str, study: Any) -> None:
    with open_store(as_role(url, "canaryd")) as store:
        measured(store, study)
    reader = make_url(as_role(url, "canaryd_ro")).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(reader, autocommit=True) as connection:
        counts = {view: connection.execute(f"SELECT count(*) FROM {view}").fetchone() for view in PUBLIC_VIEWS}
        assert counts["v_run"] == counts["v_arm_day"] == counts["v_alarm_event"] == (1,)
        forbidden = [
            f"SELECT 1 FROM {name}" for name in (*schema.metadata.tables, "alembic_version", "v_effective_sample")
        ]
        forbidden += [f"DELETE FROM {name}" for name in schema.metadata.tables]
        for statement in (*forbidden, "CREATE TABLE mine (x integer)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        with pytest.raises(psycopg.Error):
            connection.execute("INSERT INTO v_alarm_event VALUES ('s', 1, 1, 'ok', 1, 1)")


def test_the_migrations_role_changes_the_schema(url: str) -> None:
    mine = as_role(url, "canaryd_migrate")
    downgrade(mine, to=schema.REVISIONS[-3])
    upgrade(mine)
    give_roles(url)
    with open_store(as_role(url, "canaryd")) as store, store.read() as connection:
        assert connection.scalar(text("SELECT count(*) FROM text_block")) == 0


def test_the_views_say_the_same_on_both_databases(
    tmp_path: Path, new_postgres_database: Callable[..., str], study: Any
) -> None:
    urls = [f"sqlite:///{tmp_path / 'canaryd.db'}", new_postgres_database()]
    said = []
    for each in urls:
        with open_store(each, create=True) as store:
            measured(store, study)
            with store.read() as connection:
                rows = {view: connection.execute(text(f"SELECT * FROM {view}")) for view in PUBLIC_VIEWS}
                said.append({view: (list(found.keys()), sorted(map(repr, found))) for view, found in rows.items()})
    assert said[0] == said[1]
    documented = re.findall(
        r"^\| `(v_\w+)` \| [^|]* \| ([^|]*) \|$", (ROOT / "docs/store.md").read_text(), re.MULTILINE
    )
    assert {view: columns.split(", ") for view, columns in documented} == {view: said[0][view][0] for view in said[0]}
