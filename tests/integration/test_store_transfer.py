"""A series out of one store and into another; copies of a store; a plain table of samples."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, insert, select, text

from canaryd.errors import StoreUnavailable, UsageError, VerifyFailed
from canaryd.records import Alarm, EarlyWarningDay, Failure, Grade, Reply, RunEnd, Sample, SampleKey, Verdict
from canaryd.store import read, samples, schema
from canaryd.store.backup import back_up
from canaryd.store.engine import RowRefused, Store, open_store
from canaryd.store.epochs import Deviation, open_epoch
from canaryd.store.flat import COLUMNS, export_csv
from canaryd.store.ledger import first_difference, head
from canaryd.store.retention import expire_texts
from canaryd.store.rows import Cell, Invalid, Span
from canaryd.store.transfer import export_jsonl, export_tables, import_jsonl
from canaryd.store.write import (
    append_alarm,
    append_early_warning,
    append_sample,
    append_samples,
    append_validity,
    append_verdict,
    end_run,
    import_samples,
    record_missed,
)

AT = datetime(2030, 1, 5, tzinfo=UTC)
SAID = ["said " * 100, "\ud83d\ude00 lone halves \ud800", "\x00\\u0000 \u2028\r\n", '=1+1,"quoted"']


@pytest.fixture
def filled(store: Store, study: Any) -> Store:
    """Return a store with a series of every kind of row, and another series beside it."""
    other = study.register(store, "other")
    (run,) = study.claim(store, other, study.start(series="other"))
    append_sample(store, study.sample(run, "a", 1.0), run_id=run.run_id, lease=other)
    lease = study.register(store)
    for day in (1, 2):
        (run,) = study.claim(store, lease, study.start(day))
        content = [study.sample(run, "a", 1 / 3, replicate=i, text=said) for i, said in enumerate(SAID)]
        content.append(study.sample(run, "c", Failure("timeout", SAID[1])))
        ids = append_samples(store, content, run_id=run.run_id, lease=lease)
        end_run(store, RunEnd(AT, "completed"), run_id=run.run_id, lease=lease)
    record_missed(store, [study.start(3)], end=RunEnd(AT, "missed", "asleep"), lease=lease, epoch=1)
    append_validity(store, Invalid("operator", "typo", AT, sample_id=ids[0]))
    append_validity(store, Invalid("zero_outputs", "", AT, run_id=run.run_id))
    verdict = Verdict("s", 1, 1, "change", "down", "model", ("r",), AT, "p", "r", {"delta": -0.1, "base64": "x"})
    first = append_verdict(store, verdict, lease=lease)
    again = Verdict("s", 1, 1, "pending", None, None, (), AT, "p", "r", {}, supersedes=first)
    append_alarm(store, Alarm("s", "regression", AT, append_verdict(store, again, lease=lease)), lease=lease)
    day_1 = EarlyWarningDay("s", "score", 1, date(2030, 1, 1), 1, 0.1 + 0.2, 300.0, False, None)
    append_early_warning(store, [day_1], lease=lease)
    open_epoch(store, Deviation("s", "rebaseline", date(2030, 1, 4), "moved", {"harness": {}}, AT), number=2)
    study.claim(store, lease, study.start(4))
    return store


@pytest.fixture
def exported(filled: Store) -> list[str]:
    with filled.read() as connection:
        return list(export_jsonl(connection, "s", with_texts=True))


@pytest.fixture(params=["sqlite", "postgres"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path, study: Any) -> Iterator[Store]:
    """Yield another store, where a series of the same panel has run already (so that its numbers differ)."""
    if request.param == "sqlite":
        path = tmp_path / "elsewhere.db"
        shutil.copy(request.getfixturevalue("migrated_file"), path)
        url = f"sqlite:///{path}"
    else:
        create: Callable[..., str] = request.getfixturevalue("new_postgres_database")
        url = create(request.getfixturevalue("migrated_database"))
    with open_store(url) as store:
        lease = study.register(store, "mine")
        for day in range(1, 4):
            (run,) = study.claim(store, lease, study.start(day, series="mine"))
            append_sample(store, study.sample(run, "a", 1.0), run_id=run.run_id, lease=lease)
        yield store


def everything(store: Store) -> dict[str, Any]:
    with store.read() as connection:
        found = samples.samples(connection, Span("s", "old", date(2030, 1, 1), date(2030, 1, 9)), include_invalid=True)
        verdicts = read.verdicts(connection, "s", superseded=True)
        return {
            "samples": [(each.key, each.result, each.text, each.asked_at, each.invalid_reason) for each in found],
            "verdicts": [(each.verdict.kind, each.verdict.clauses, each.verdict.reasons) for each in verdicts],
            "in force": [each.verdict.kind for each in read.verdicts(connection, "s")],
            "runs": [(run.start, run.end) for run in read.runs(connection, "s")],
            "alarms": [(alarm.state, alarm.since) for alarm in read.alarms(connection, "s")],
            "warnings": read.early_warnings(connection, "s", stream="score"),
            "arms": read.arms(connection, "s"),
            "registration": read.registration(connection, "s"),
            "head": head(connection, "s"),
        }


def test_every_table_of_a_series_is_exported() -> None:
    assert set(export_tables()) == set(schema.metadata.sorted_tables) - {schema.lease, *schema.DERIVED}


def test_what_is_imported_equals_what_was_exported(filled: Store, exported: list[str], elsewhere: Store) -> None:
    assert import_jsonl(elsewhere, exported, now=AT) == "s"
    assert everything(elsewhere) == everything(filled)
    with elsewhere.read() as connection:
        assert first_difference(connection, "s") is None
        assert read.series(connection, "s").imported_at == AT
        again = list(export_jsonl(connection, "s", with_texts=True))
    assert len(again) == len(exported)
    with filled.read() as connection:
        assert read.series(connection, "s").imported_at is None


def test_an_export_is_plain_lines_without_the_other_series(exported: list[str]) -> None:
    assert all(line.isascii() and "\n" not in line for line in exported)
    assert not any('"other"' in line for line in exported)
    tables = [json.loads(line).get("table") for line in exported]
    assert tables.count("sample") == 10
    assert tables.count("text_block") == 2
    assert tables.count("series") == 1


def test_an_export_without_texts_proves_the_same_ledger(filled: Store, elsewhere: Store) -> None:
    with filled.read() as connection:
        lines = list(export_jsonl(connection, "s", with_texts=False))
    assert not any('"text_block"' in line for line in lines)
    import_jsonl(elsewhere, lines, now=AT)
    with elsewhere.read() as connection:
        assert first_difference(connection, "s") is None
        found = samples.samples(connection, Span("s", "old", date(2030, 1, 1), date(2030, 1, 1)))
    assert {each.text for each in found} == {None}
    assert {each.text_digest is None for each in found if isinstance(each.result, Grade)} == {False}


def test_a_touched_export_is_found_out(exported: list[str], elsewhere: Store) -> None:
    touched = [line.replace('"score":0.3333333333333333', '"score":0.5', 1) for line in exported]
    named = r"sample a/0 of old 2030-01-01 attempt 1 differs \(ledger entry 2\), so that nothing is imported"
    with pytest.raises(VerifyFailed, match=named):
        import_jsonl(elsewhere, touched, now=AT)
    with elsewhere.read() as connection:
        assert "s" not in read.series_names(connection)


def test_a_series_is_not_imported_over_another(filled: Store, exported: list[str]) -> None:
    with pytest.raises(UsageError, match=r"series 's' is already in .*; import it into another store"):
        import_jsonl(filled, exported, now=AT)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [], "line 1 is no JSON object"),
        (lambda lines: ["{}"], "line 1 is not the header of a canaryd-export-1 file"),
        (lambda lines: ["[" * 100_000], "line 1 is no JSON object"),
        (lambda lines: ['{"format":"canaryd-export-1"}'], "line 1 does not say series"),
        (lambda lines: [*lines, "garbage"], "something stands after line"),
        (lambda lines: [*lines[:5], '{"table":"arm","row":{"series":"s","arm":[1]}}'], "line 6 is no row of table arm"),
        (lambda lines: lines[:-1], r"ends at line \d+ without its last line"),
        (lambda lines: lines[:5] + lines[6:], r"line \d+ counts \d+ rows after \d+"),
        (lambda lines: [*lines[:5], "oops", *lines[6:]], "line 6 is no JSON object"),
        (lambda lines: [*lines[:5], '{"table":"nosuch","row":{}}'], "line 6 holds what this canaryd does not know"),
        (lambda lines: [*lines[:5], '{"table":"arm","row":{"x":1}}'], "line 6 holds what this canaryd does not know"),
        (lambda lines: [*lines[:5], '{"table":"arm","row":[]}'], "line 6 holds what this canaryd does not know"),
        (lambda lines: [*lines[:5], '{"table":"run_end","row":{"run_id":9}}'], "line 6 is no row of table run_end"),
        (lambda lines: [*lines[:5], '{"table":"panel","row":{"content":"?"}}'], "line 6 is no row of table panel"),
    ],
)
def test_a_broken_export_is_refused_whole(
    exported: list[str], elsewhere: Store, change: Callable[[list[str]], list[str]], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        import_jsonl(elsewhere, change(exported), now=AT)
    with elsewhere.read() as connection:
        assert [each.name for each in read.all_series(connection)] == ["mine"]
        assert connection.scalar(select(func.count()).select_from(schema.sample)) == 3


def test_expired_texts_stay_expired(filled: Store, elsewhere: Store) -> None:
    expire_texts(filled, "s", before=date(2030, 1, 2), now=AT)
    with filled.read() as connection:
        lines = list(export_jsonl(connection, "s", with_texts=True))
    import_jsonl(elsewhere, lines, now=AT)
    with elsewhere.read() as connection:
        assert first_difference(connection, "s") is None
    assert everything(elsewhere) == everything(filled)


def test_an_export_of_a_canaryd_whose_ledger_covered_less_is_covered_anew(
    store: Store, elsewhere: Store, study: Any
) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    append_samples(store, [study.sample(run, "a", 1.0)], run_id=run.run_id, lease=lease)
    end_run(store, RunEnd(AT, "completed"), run_id=run.run_id, lease=lease)
    append_alarm(store, Alarm("s", "ok", AT, None), lease=lease)
    with store.read() as connection:
        lines = list(export_jsonl(connection, "s", with_texts=True))
        end = head(connection, "s")
    older = [line for line in lines if '"kind":"rows"' not in line]
    assert len(older) == len(lines) - 1
    counted = json.dumps({"rows": json.loads(lines[-1])["rows"] - 1})
    newest = f'"schema":"{schema.REVISIONS[-1]}"'
    import_jsonl(elsewhere, [older[0].replace(newest, '"schema":"0012"'), *older[1:-1], counted], now=AT)
    with elsewhere.read() as connection:
        assert first_difference(connection, "s") is None
        assert head(connection, "s") == end


def test_foreign_samples_become_completed_runs(store: Store, study: Any) -> None:
    plan = study.plan()
    key = SampleKey("s", "old", date(2023, 3, 1), "a", 0)
    foreign = [
        Sample(SampleKey("s", "old", date(2023, 6, 1), "a", 0), Grade(0.0, True, False), None, AT, AT),
        Sample(key, Grade(1.0, True, True), Reply("said", "stop"), AT, AT),
        Sample(SampleKey("s", "old", date(2023, 3, 1), "b", 0), Failure("malformed"), None, AT, AT),
    ]
    with pytest.raises(ValueError, match="has no imported_at"):
        import_samples(store, plan, samples=foreign, at=AT)
    marked = type(plan)(**{name: getattr(plan, name) for name in type(plan).__slots__} | {"imported_at": AT})
    with pytest.raises(RowRefused):
        import_samples(store, marked, samples=[*foreign, foreign[1]], at=AT)
    import_samples(store, marked, samples=foreign, at=AT)
    with store.read() as connection:
        assert first_difference(connection, "s") is None
        assert [run.start.slot_date for run in read.runs(connection, "s")] == [date(2023, 3, 1), date(2023, 6, 1)]
        assert samples.item_day_cells(connection, Span("s", "old", key.slot_date, key.slot_date)) == (
            Cell("a", key.slot_date, 1, 1.0, 1.0),
        )
        assert read.series(connection, "s").imported_at == AT
        assert connection.scalar(text("SELECT sum(texts) FROM text_block")) == 1


def test_a_sample_is_repeated_without_harm(store: Store, study: Any) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    pair = [study.sample(run, "a", 1.0), study.sample(run, "b", Failure("timeout"))]
    ids = append_samples(store, pair, run_id=run.run_id, lease=lease)
    assert append_samples(store, pair, run_id=run.run_id, lease=lease) == ids
    for other in (study.sample(run, "a", 1.0, text="else"), study.sample(run, "b", 1.0)):
        with pytest.raises(RowRefused):
            append_sample(store, other, run_id=run.run_id, lease=lease)
    with store.read() as connection:
        assert connection.scalar(select(func.count()).select_from(schema.sample)) == 2


def test_the_table_has_a_line_for_each_sample_that_counts(filled: Store) -> None:
    with filled.read() as connection:
        with_texts = list(
            csv.DictReader("".join(export_csv(connection, "s", with_texts=True)).splitlines(keepends=True))
        )
        without = list(csv.reader(export_csv(connection, "s", with_texts=False)))
    assert without[0] == list(COLUMNS)
    assert len(with_texts) == len(without) - 1 == 10
    first, failed = with_texts[0], with_texts[4]
    assert (first["score"], first["passed"], first["sentinel"]) == ("0.3333333333333333", "0", "0")
    assert first["slot_date"] == "2030-01-01"
    assert (first["asked_at"], first["invalid_reason"]) == ("2030-01-01T03:00:00+00:00", "")
    assert (failed["score"], failed["failure_kind"], failed["text"]) == ("", "timeout", "")
    assert with_texts[-1]["invalid_reason"] == "zero_outputs"
    assert [row["text"] for row in with_texts[:4]] == [
        SAID[0],
        "\\ud83d\\ude00 lone halves \\ud800",
        "\\u0000\\\\u0000 \u2028\r\n",
        SAID[3],
    ]


@pytest.fixture
def sqlite_file(migrated_file: Path, tmp_path: Path) -> Path:
    path = tmp_path / "live & well #1.db"
    shutil.copy(migrated_file, path)
    return path


def test_a_copy_made_while_the_store_is_written_is_whole(sqlite_file: Path, tmp_path: Path, study: Any) -> None:
    copy = tmp_path / "copy.db"
    with open_store(f"sqlite:///{sqlite_file}") as store:
        lease = study.register(store)
        (run,) = study.claim(store, lease, study.start())
        done = threading.Event()
        failures: list[Exception] = []

        def write() -> None:
            try:
                for replicate in range(60):
                    sample = study.sample(run, "a", 1.0, replicate=replicate)
                    append_sample(store, sample, run_id=run.run_id, lease=lease)
            except Exception as error:
                failures.append(error)
            finally:
                done.set()

        writer = threading.Thread(target=write)
        writer.start()
        copies = 0
        while not done.is_set() or copies == 0:
            back_up(sqlite_file, copy)
            copies += 1
        writer.join()
        assert failures == []
        back_up(sqlite_file, copy)
    with open_store(f"sqlite:///{copy}") as restored:
        with restored.read() as connection:
            assert samples.tally(connection, Span("s", "old", study.day_1, study.day_1)).samples == 60
            assert first_difference(connection, "s") is None
        append_sample(restored, study.sample(run, "b", 1.0), run_id=run.run_id, lease=lease)
    assert not copy.with_name("copy.db.partial").exists()


def test_a_copy_never_replaces_the_store(sqlite_file: Path) -> None:
    before = sqlite_file.read_bytes()
    with pytest.raises(UsageError, match="is the store itself"):
        back_up(sqlite_file, sqlite_file)
    assert sqlite_file.read_bytes() == before


def test_a_failed_copy_leaves_the_older_one(sqlite_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(b"the older copy")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE x (y)")
    connection.close()
    with pytest.raises(StoreUnavailable, match="is not a whole store of canaryd"):
        back_up(other, copy)
    with pytest.raises(StoreUnavailable, match="was not copied"):
        back_up(tmp_path / "nosuch.db", copy)
    with pytest.raises(UsageError, match="nosuch; make it"):
        back_up(sqlite_file, tmp_path / "nosuch" / "copy.db")
    assert copy.read_bytes() == b"the older copy"
    assert [path.name for path in tmp_path.glob("*.partial")] == []


def test_an_imported_row_keeps_to_the_rules(store: Store) -> None:
    with pytest.raises(RowRefused), store.write() as connection:
        connection.execute(insert(schema.text_expiry).values(series="nosuch", before=AT.date(), at=AT))
