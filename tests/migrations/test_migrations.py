"""Every schema revision goes up, down and up again with data, on both databases, and ends at what schema.py says."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text

from canaryd.errors import Locked, StoreUnavailable
from canaryd.records import Alarm, RunEnd
from canaryd.store import schema
from canaryd.store.check import problems
from canaryd.store.engine import Store, open_store, parse_url, revision
from canaryd.store.ledger import first_difference, head
from canaryd.store.migrate import alembic_config, downgrade, migrations_dir, rehearse, upgrade
from canaryd.store.rows import Invalid
from canaryd.store.write import append_alarm, append_samples, append_validity, end_run


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    engine = create_engine(parse_url(url))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def counts(url: str) -> dict[str, int]:
    with connected(url) as connection:
        return {
            name: connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one()
            for name in inspect(connection).get_table_names()
            if name != "alembic_version"
        }


def fill(store: Store, study: Any) -> None:
    """Add 1,000 samples and a row to every other table that a run fills."""
    lease = study.register(store)
    for day in range(1, 6):
        (run,) = study.claim(store, lease, study.start(day))
        content = [study.sample(run, item, 1.0, replicate=i) for item in "abcd" for i in range(50)]
        ids = append_samples(store, content, run_id=run.run_id, lease=lease)
        append_validity(store, Invalid("operator", "", study.now, sample_id=ids[0]))
        end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lease)
    append_alarm(store, Alarm("s", "ok", study.now, None), lease=lease)


def test_the_known_revisions_are_those_of_the_scripts() -> None:
    scripts = ScriptDirectory.from_config(alembic_config())
    assert len(scripts.get_heads()) == 1
    assert tuple(each.revision for each in reversed(list(scripts.walk_revisions()))) == schema.REVISIONS


def test_models_equal_migrations(empty_store_url: str) -> None:
    upgrade(empty_store_url)
    with connected(empty_store_url) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []


def definitions(path: Path) -> dict[str, str]:
    """Return each table's and index' CREATE statement without its white space."""
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type IN ('table', 'index')"
    ).fetchall()
    connection.close()
    return {name: "".join(sql.split()) for name, sql in rows if name != "alembic_version"}


def parts(definition: str) -> list[str]:
    """Return the comma-separated parts, sorted: the order of constraints means nothing."""
    return sorted(definition.removesuffix("STRICT").removesuffix(")").split(","))


def test_models_equal_migrations_to_the_letter(tmp_path: Path) -> None:
    migrated, modelled = tmp_path / "migrated.db", tmp_path / "modelled.db"
    upgrade(f"sqlite:///{migrated}")
    engine = create_engine(f"sqlite:///{modelled}")
    schema.metadata.create_all(engine)
    engine.dispose()
    left, right = definitions(migrated), definitions(modelled)
    assert left.keys() == right.keys()
    for name in left:
        assert parts(left[name]) == parts(right[name]), name
        assert left[name].endswith("STRICT") == right[name].endswith("STRICT")


#: Tables that the way to the newest schema fills or empties.
MADE_BY_UPGRADE = dict.fromkeys(("reply_text", "text_block", "day_total", "run_total", "ledger"), 0)


def test_each_revision_goes_up_down_and_up_and_keeps_every_row(empty_store_url: str, study: Any) -> None:
    with open_store(empty_store_url, create=True) as store:
        fill(store, study)
        with store.read() as connection:
            end = head(connection, "s")
    downgrade(empty_store_url, to=schema.REVISIONS[0])
    rows = counts(empty_store_url)
    assert rows["sample"] == rows["reply_text"] == 1000
    for before, newer in pairwise(schema.REVISIONS):
        upgrade(empty_store_url, to=newer)
        kept = counts(empty_store_url)
        # The newest schema packs texts, adds up and adopts rows into the ledger, which says below that none is lost.
        made = MADE_BY_UPGRADE if newer == schema.REVISIONS[-1] else {}
        assert (kept | made).items() >= (rows | made).items(), newer
        downgrade(empty_store_url, to=before)
        assert (counts(empty_store_url) | made).items() == (rows | made).items(), newer
        upgrade(empty_store_url, to=newer)
        assert counts(empty_store_url) == kept, newer
        rows = kept
    # To the newest in one go, as `canaryd db upgrade` does.
    downgrade(empty_store_url, to=schema.REVISIONS[0])
    upgrade(empty_store_url)
    with open_store(empty_store_url) as store, store.read() as connection:
        assert first_difference(connection, "s") is None
        assert head(connection, "s") == end
        assert connection.scalar(text("SELECT sum(texts) FROM text_block")) == 1000


def test_an_older_store_is_copied_before_it_is_upgraded(tmp_path: Path, study: Any) -> None:
    path = tmp_path / "canaryd.db"
    url = f"sqlite:///{path}"
    assert upgrade(url) is None
    with open_store(url) as store:
        fill(store, study)
    assert upgrade(url) is None
    downgrade(url, to=schema.REVISIONS[0])
    older = counts(url)
    copy = upgrade(url)
    assert copy == tmp_path / f"canaryd.db.{schema.REVISIONS[0]}"
    assert counts(f"sqlite:///{copy}") == older
    with pytest.raises(StoreUnavailable, match="run `canaryd db upgrade`"):
        open_store(f"sqlite:///{copy}")


def test_a_store_that_somebody_measures_into_is_not_upgraded(empty_store_url: str, study: Any) -> None:
    with open_store(empty_store_url, create=True) as store:
        fill(store, study)
    downgrade(empty_store_url, to=schema.REVISIONS[-2])
    with pytest.raises(Locked, match=r"held by process 1 on here, .*; stop the daemon \(or that run\) first"):
        upgrade(empty_store_url, now=study.now)
    assert revision(parse_url(empty_store_url)) == schema.REVISIONS[-2]
    upgrade(empty_store_url, now=study.now + timedelta(minutes=2))
    upgrade(empty_store_url, now=study.now)


def test_upgrading_a_current_store_changes_nothing(empty_store_url: str, study: Any) -> None:
    with open_store(empty_store_url, create=True) as store:
        fill(store, study)
    before = counts(empty_store_url)
    assert before["sample"] == 1000
    upgrade(empty_store_url)
    assert counts(empty_store_url) == before


def test_a_filled_store_goes_down_and_up(empty_store_url: str, study: Any) -> None:
    with open_store(empty_store_url, create=True) as store:
        fill(store, study)
    downgrade(empty_store_url, to="base")
    assert counts(empty_store_url) == {}
    with open_store(empty_store_url, create=True) as store:
        fill(store, study)


def with_one_more(directory: Path, *lines: str) -> Path:
    """Return a copy of the migrations with one more, which makes a table and then runs the lines."""
    scripts = directory / "migrations"
    shutil.copytree(migrations_dir(), scripts, ignore=shutil.ignore_patterns("__pycache__"))
    body = "".join(f"    {line}\n" for line in ("op.execute('CREATE TABLE more (x INTEGER)')", *lines))
    (scripts / "versions" / "9999_more.py").write_text(
        f"from alembic import op\nrevision = '9999'\ndown_revision = {schema.REVISIONS[-1]!r}\ndef upgrade():\n{body}"
    )
    return scripts


def test_a_migration_that_fails_half_way_changes_nothing(
    empty_store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study: Any
) -> None:
    with open_store(empty_store_url, create=True) as store:
        fill(store, study)
    before = counts(empty_store_url)
    scripts = with_one_more(tmp_path, "op.execute('INSERT INTO nosuch VALUES (1)')")
    monkeypatch.setattr("canaryd.store.migrate.migrations_dir", lambda: scripts)
    with pytest.raises(StoreUnavailable, match="cannot be migrated"):
        upgrade(empty_store_url)
    assert counts(empty_store_url) == before
    with open_store(empty_store_url):
        pass


def test_a_migration_that_orphans_rows_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study: Any) -> None:
    url = f"sqlite:///{tmp_path / 'canaryd.db'}"
    with open_store(url, create=True) as store:
        fill(store, study)
    scripts = with_one_more(
        tmp_path, """op.execute("INSERT INTO run_end VALUES (4711, '2030-01-01', 'completed', '')")"""
    )
    monkeypatch.setattr("canaryd.store.migrate.migrations_dir", lambda: scripts)
    before = counts(url)
    with pytest.raises(StoreUnavailable, match="a row of table run_end would lose the row of run_start"):
        upgrade(url)
    assert counts(url) == before


def test_recreating_a_parent_table_keeps_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study: Any
) -> None:
    url = f"sqlite:///{tmp_path / 'canaryd.db'}"
    with open_store(url, create=True) as store:
        fill(store, study)
    before = counts(url)
    scripts = with_one_more(
        tmp_path,
        "for parent in ('panel', 'series', 'arm', 'run_start', 'sample', 'verdict'):",
        "    with op.batch_alter_table(parent, recreate='always'):",
        "        pass",
    )
    monkeypatch.setattr("canaryd.store.migrate.migrations_dir", lambda: scripts)
    upgrade(url)
    after = counts(url)
    assert after.pop("more") == 0
    assert after == before
    with connected(url) as connection:
        strict = connection.execute(text("SELECT name FROM pragma_table_list WHERE strict")).scalars().all()
    assert {table.name for table in schema.metadata.sorted_tables} <= set(strict)


def test_scripts_are_found_beside_the_package_and_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (migrations_dir() / "env.py").is_file()
    (tmp_path / "canaryd" / "data" / "migrations").mkdir(parents=True)
    monkeypatch.setattr("canaryd.store.migrate.files", lambda name: tmp_path / name)
    assert migrations_dir() == tmp_path / "canaryd" / "data" / "migrations"


def test_a_rehearsed_upgrade_changes_nothing(empty_store_url: str, study: Any) -> None:
    assert rehearse(empty_store_url) == schema.REVISIONS
    assert revision(parse_url(empty_store_url)) is None
    with open_store(empty_store_url, create=True) as store:
        fill(store, study)
    assert rehearse(empty_store_url) == ()
    downgrade(empty_store_url, to=schema.REVISIONS[1])
    before = counts(empty_store_url)
    assert rehearse(empty_store_url) == schema.REVISIONS[2:]
    assert counts(empty_store_url) == before
    assert revision(parse_url(empty_store_url)) == schema.REVISIONS[1]


def test_an_upgraded_store_has_the_totals_of_its_days(empty_store_url: str, study: Any) -> None:
    with open_store(empty_store_url, create=True) as store:
        fill(store, study)
    kept = counts(empty_store_url)["day_total"]
    assert kept > 0
    downgrade(empty_store_url, to="0006")
    upgrade(empty_store_url)
    assert counts(empty_store_url)["day_total"] == kept


def test_a_lost_trigger_is_told(empty_store_url: str) -> None:
    with open_store(empty_store_url, create=True) as store, store.read() as connection:
        assert list(problems(connection)) == []
    with connected(empty_store_url) as connection:
        if connection.dialect.name == "sqlite":
            connection.execute(text("DROP TRIGGER sample_no_delete"))
        else:
            connection.execute(text("DROP TRIGGER sample_append_only ON sample"))
        assert [each.split(" has ")[0] for each in problems(connection)] == ["table sample"]
