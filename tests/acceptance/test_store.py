"""A measured series is verified, written out, read in and backed up by the command line, as a person would."""

from __future__ import annotations

import csv
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, delete, select

from canaryd import graders
from canaryd.config import Config, parse
from canaryd.daily import decide_due, measure_slot
from canaryd.errors import VerifyFailed
from canaryd.generators import generate
from canaryd.panel import freeze, load, lock_path, system_path
from canaryd.resources import resource
from canaryd.runner.registering import register
from canaryd.store import ledger, notes, read, schema
from canaryd.store.engine import open_store
from canaryd.store.migrate import downgrade
from canaryd.store.rows import Invalid
from canaryd.store.write import append_validity
from canaryd.verify import verify_series

DAY_1 = date(2027, 1, 1)
DAYS = 12
CONFIG = """
[demo]
clock = "clock.txt"
[store]
url = "sqlite:///canaryd.db"
[[series]]
name = "main"
panel = "panel.jsonl"
[[series.arm]]
name = "tracked"
role = "tracked"
provider = "simulated"
model = "large"
options = { eras = [{ from = "2027-01-07", drop = 0.4, token_factor = 0.5 }] }
[[series.arm]]
name = "control"
role = "control"
provider = "simulated"
model = "small"
"""


def at_day(folder: Path, day: int, *, hour: int) -> Config:
    """Set the clock to ten past an hour of a series day."""
    moment = datetime(2027, 1, day, hour, 10, tzinfo=UTC)
    (folder / "clock.txt").write_text(moment.isoformat() + "\n")
    return parse(CONFIG, path=folder / "config.toml")


def measure_day(folder: Path, day: int) -> None:
    config = at_day(folder, day, hour=3)
    measure_slot(config, config.series[0], slot_date=DAY_1 + timedelta(days=day - 1))


def decide(folder: Path, day: int) -> None:
    decide_due(at_day(folder, day, hour=0), "main")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of twelve measured days, whose tracked model got worse on day 7."""
    folder = tmp_path_factory.mktemp("measured")
    panel = folder / "panel.jsonl"
    families = ("arith", "modular", "bases", "calendar", "fidelity", "tracing")
    generated = generate("store", size=24, name="store", families=families)
    panel.write_bytes(generated.items)
    Path(system_path(str(panel))).write_bytes(generated.system)
    frozen = load(str(panel), graders=graders)
    Path(lock_path(str(panel))).write_bytes(freeze(frozen))
    registration = resource("prereg.example.toml").read_text()
    for key, value in (("baseline_days", 6), ("window_days", 3), ("horizon_days", 30)):
        registration = re.sub(rf"^{key} = \d+", f"{key} = {value}", registration, count=1, flags=re.MULTILINE)
    (folder / "prereg.toml").write_text(registration)
    (folder / "config.toml").write_text(CONFIG)
    config = parse(CONFIG, path=folder / "config.toml")
    before = datetime.combine(DAY_1, datetime.min.time(), UTC) - timedelta(hours=12)
    with open_store(config.store_url, create=True) as store:
        register(config.series[0], frozen, store=store, now=before, start_date=DAY_1)
    for day in range(1, DAYS + 1):
        measure_day(folder, day)
    decide(folder, DAYS + 1)
    return folder


@pytest.fixture
def folder(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "project"))


@pytest.fixture
def here(canaryd: Any, folder: Path) -> Callable[..., Any]:
    """Run a command on the project."""
    return lambda *arguments: canaryd("--config", "project/config.toml", *arguments)


def forge(path: Path, *statements: str) -> None:
    """Change rows as no program of this project would: with the rules of the store switched off."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement


def test_a_measured_series_verifies(here: Callable[..., Any]) -> None:
    verified = here("verify")
    assert verified.code == 0, verified.err
    assert re.search(r"^main: ledger of \d+ entries, ", verified.out)
    assert "2 verdicts and 36 early-warning rows agree" in verified.out
    assert re.search(r"^head sha256:[0-9a-f]{64}$", verified.out, re.MULTILINE)
    assert here("check").code == 1


def rewrite_ledger(path: Path, *, whole: bool = True) -> None:
    """Make the ledger agree with what is stored, as a forger would who knows the program (or knows an older one)."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        entries = connection.execute(select(schema.ledger).order_by(schema.ledger.c.position)).all()
        connection.execute(delete(schema.ledger))
        for entry in entries:
            if entry.kind != "rows":
                ledger.extend(connection, entry.series, kind=entry.kind, row_id=entry.row_id)
        if whole:
            ledger.adopt(connection, "main")
    engine.dispose()


ONE_SCORE = "UPDATE sample SET score = 1 - score WHERE sample_id = (SELECT max(sample_id) FROM sample WHERE score = 0)"
FORGERIES = {
    ONE_SCORE: r"sample \S+/0 of (tracked|control) 2027-01-12 attempt 1 differs \(ledger entry \d+\)",
    "UPDATE text_block SET content = zeroblob(9) WHERE run_id = 2": r"a text of \w+ 2027-01-01 differs",
    'UPDATE verdict SET clauses = replace(clauses, \'"first":"2027-01-10"\', \'"first":"2027-01-09"\')': (
        r"verdict of epoch 1 window 2 differs \(ledger entry \d+\)"
    ),
    "UPDATE panel SET version = '2'": r"panel store differs \(ledger entry \d+\)",
    "DELETE FROM early_warning WHERE stream = 'score' AND slot_date = '2027-01-12'": (
        r"early warning score of 2027-01-12 is missing"
    ),
    "UPDATE early_warning SET capital = capital / 2 WHERE stream = 'tokens' AND slot_date = '2027-01-11'": (
        r"early warning tokens of 2027-01-11 differs"
    ),
    "UPDATE alarm SET state = 'ok' WHERE verdict_id IS NOT NULL": (
        r"alarm since 2027-01-13T\S+ differs \(ledger entry \d+\)"
    ),
    "UPDATE fingerprint SET components = replace(components, 'large', 'grand')": "harness .* differs from its digest",
    "DELETE FROM fingerprint": "harness .* is missing",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_was_forged_is_named(folder: Path, forgery: str) -> None:
    path = folder / "canaryd.db"
    forge(path, forgery)
    with (
        open_store(f"sqlite:///{path}") as store,
        store.read() as connection,
        pytest.raises(VerifyFailed, match=FORGERIES[forgery]),
    ):
        verify_series(connection, "main")


WITH_LEDGER = {
    ONE_SCORE: r"day total of \w+ 2027-01-12 differs from its samples",
    "UPDATE verdict SET kind = 'no_change_detected', direction = NULL, attribution = NULL WHERE window_index = 2": (
        r"at kind \('no_change_detected', recomputed 'change'\)"
    ),
    "UPDATE series SET registration = CAST(replace(registration, 'min_effect = 0.03', 'min_effect = 0.3') AS BLOB)": (
        "the bytes of the registration differ from their digest"
    ),
    "UPDATE panel_item SET sentinel = 1 WHERE ordinal = 3": r"item \S+ differs beside the bytes of the panel",
    "UPDATE panel SET content = CAST(replace(content, 'What', 'what') AS BLOB)": "panel store differs: with this",
    "UPDATE alarm SET state = 'ok' WHERE verdict_id IS NOT NULL": "alarm ok since .* is not what its verdict says",
    "DELETE FROM early_warning WHERE stream = 'score' AND slot_date = '2027-01-12'": (
        "early warning score of 2027-01-12 is missing"
    ),
    "UPDATE panel SET content = CAST('{' AS BLOB)": "the stored panel cannot be read",
}


@pytest.mark.parametrize("forgery", WITH_LEDGER)
def test_a_rewritten_ledger_hides_nothing(folder: Path, forgery: str) -> None:
    path = folder / "canaryd.db"
    with open_store(f"sqlite:///{path}") as store, store.read() as connection:
        published = ledger.head(connection, "main")
    forge(path, forgery)
    rewrite_ledger(path)
    with open_store(f"sqlite:///{path}") as store, store.read() as connection:
        assert ledger.first_difference(connection, "main") is None
        assert ledger.head(connection, "main") != published
        with pytest.raises(VerifyFailed, match=WITH_LEDGER[forgery]):
            verify_series(connection, "main")


def test_a_forged_score_contradicts_its_verdict(folder: Path) -> None:
    path = folder / "canaryd.db"
    forge(path, ONE_SCORE, "DELETE FROM day_total")
    rewrite_ledger(path)
    with (
        open_store(f"sqlite:///{path}") as store,
        store.read() as connection,
        pytest.raises(VerifyFailed, match=r"verdict of epoch 1 window 2 differs from its recomputation at clauses\."),
    ):
        verify_series(connection, "main")


def test_the_command_names_the_row_and_exits_65(here: Callable[..., Any], folder: Path) -> None:
    forge(folder / "canaryd.db", ONE_SCORE)
    refused = here("verify", "--series", "main")
    assert (refused.code, refused.err.count("\n")) == (65, 1)
    assert re.search(r"main: sample \S+ of \w+ 2027-01-12 attempt 1 differs", refused.err)
    assert here("verify", "--series", "nosuch").code == 64


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE series SET start_date = 'x'", "start_date of row main of table series cannot be read"),
        ("UPDATE verdict SET reasons = '['", "reasons of row 1 of table verdict cannot be read"),
        ("DELETE FROM series", "table ledger has rows of a series whose own row is missing"),
    ],
)
def test_what_cannot_be_read_or_has_lost_its_series_is_named(
    here: Callable[..., Any], folder: Path, statement: str, named: str
) -> None:
    forge(folder / "canaryd.db", statement)
    failed = here("verify")
    assert (failed.code, named in failed.err) == (65, True), failed.err


def test_a_published_warning_stays_when_its_day_is_set_aside_later(folder: Path) -> None:
    measure_day(folder, 13)
    with open_store(f"sqlite:///{folder / 'canaryd.db'}") as store:
        with store.read() as connection:
            latest = read.latest_run(connection, "main", arm="tracked")
        assert latest is not None
        noted = datetime(2027, 1, 14, 1, tzinfo=UTC)
        append_validity(store, Invalid("operator", "typo", noted, run_id=latest.run_id))
        measure_day(folder, 14)
        measure_day(folder, 15)
        decide(folder, 16)
        with store.read() as connection:
            assert notes.set_aside_later(connection, "main") == ((date(2027, 1, 13), date(2027, 1, 14)),)
            assert verify_series(connection, "main").verdicts == 3
            rows = read.early_warnings(connection, "main", stream="score")
        assert {row.slot_date.day for row in rows if row.segment == rows[-1].segment} == {14, 15}
        forge(folder / "canaryd.db", "UPDATE early_warning SET rank = rank + 1 WHERE slot_date = '2027-01-15'")
        with (
            store.read() as connection,
            pytest.raises(VerifyFailed, match=r"early warning \w+ of 2027-01-15 differs"),
        ):
            verify_series(connection, "main")


def test_a_published_warning_stays_when_its_day_is_set_aside_before_it_is_over(
    here: Callable[..., Any], folder: Path
) -> None:
    measure_day(folder, 13)
    quarantined = here("quarantine", "--slot", "2027-01-13", "--reason", "a typo")
    assert quarantined.code == 0
    assert "early warning score begins a new segment (" in quarantined.out
    assert here("verify", "--series", "main").code == 0
    measure_day(folder, 14)
    assert here("verify", "--series", "main").code == 0


def test_a_verdict_that_a_later_note_contradicts_is_named(folder: Path) -> None:
    with open_store(f"sqlite:///{folder / 'canaryd.db'}") as store:
        with store.read() as connection:
            first = read.runs(connection, "main", first=DAY_1, last=DAY_1)[0]
        append_validity(store, Invalid("operator", "", datetime(2027, 1, 14, tzinfo=UTC), run_id=first.run_id))
        with (
            store.read() as connection,
            pytest.raises(VerifyFailed, match="verdict of epoch 1 window 1 differs from its"),
        ):
            verify_series(connection, "main")


def verdicts(path: Path) -> list[Any]:
    with open_store(f"sqlite:///{path}") as store, store.read() as connection:
        return [stored.verdict for stored in read.verdicts(connection, "main")]


@pytest.mark.parametrize("texts", [(), ("--without-texts",)])
def test_an_export_is_verified_without_the_store_and_read_in_again(
    here: Callable[..., Any], canaryd: Any, folder: Path, texts: tuple[str, ...]
) -> None:
    assert here("export", "--series", "main", "main.jsonl", *texts).code == 0
    written = (folder.parent / "main.jsonl").read_text()
    assert ('"text_block"' in written) == (not texts)
    at_home, offline = here("verify"), canaryd("verify", "main.jsonl")
    assert (offline.code, offline.out) == (0, at_home.out), offline.err
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.toml").write_text(CONFIG.replace('[demo]\nclock = "clock.txt"', ""))
    (elsewhere / "prereg.toml").write_bytes((folder / "prereg.toml").read_bytes())
    imported = canaryd("--config", "elsewhere/config.toml", "import", "main.jsonl")
    assert imported.code == 0, imported.err
    again = canaryd("--config", "elsewhere/config.toml", "verify")
    assert (again.code, again.out) == (0, at_home.out)
    assert verdicts(elsewhere / "canaryd.db") == verdicts(folder / "canaryd.db")
    with open_store(f"sqlite:///{elsewhere / 'canaryd.db'}") as store, store.read() as connection:
        assert read.series(connection, "main").imported_at is not None
    twice = canaryd("--config", "elsewhere/config.toml", "import", "main.jsonl")
    assert (twice.code, "already in" in twice.err) == (64, True)


def test_a_touched_export_is_found_out(here: Callable[..., Any], canaryd: Any, folder: Path) -> None:
    assert here("export", "--series", "main", "main.jsonl").code == 0
    path = folder.parent / "main.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if '"score":0.0' in line)
    for forged, code, said in [
        ('"score":1.0', 65, "2027-01-01 attempt 1 differs (ledger entry "),
        ('"score":7.0', 65, "the export holds a row that no store takes"),
        ('"score":"x', 64, "is no JSON object"),
    ]:
        path.write_text("".join([*lines[:place], lines[place].replace('"score":0.0', forged), *lines[place + 1 :]]))
        refused = canaryd("verify", "main.jsonl")
        assert (refused.code, said in refused.err) == (code, True), refused.err
    path.write_bytes(b"\xff\xfe\x00\x9c")
    assert canaryd("verify", "main.jsonl").code == 64
    path.write_text("".join(lines[:-1]))
    assert canaryd("verify", "main.jsonl").code == 64
    assert canaryd("verify", "main.jsonl", "--series", "main").code == 64


def test_tables_and_what_cannot_be_written(here: Callable[..., Any], folder: Path) -> None:
    table = here("export", "--series", "main", "--format", "csv", "-")
    rows = list(csv.DictReader(table.out.splitlines()))
    assert len(rows) == DAYS * 24 * 2
    assert {row["arm"] for row in rows} == {"tracked", "control"}
    assert here("export", "--series", "nosuch", "x.jsonl").code == 64
    missing = here("export", "--series", "main", "nowhere/x.jsonl")
    assert (missing.code, "cannot be written" in missing.err) == (64, True)
    assert not list(folder.parent.glob("*.partial"))


def test_parquet_holds_the_types(here: Callable[..., Any], folder: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (canaryd[parquet])")
    assert here("export", "--series", "main", "--format", "parquet", "main.parquet").code == 0
    table = parquet.read_table(folder.parent / "main.parquet")
    assert table.num_rows == DAYS * 24 * 2
    first = table.slice(0, 1).to_pylist()[0]
    assert first["slot_date"] == DAY_1
    assert first["asked_at"].tzinfo is not None
    assert isinstance(first["score"], float)
    assert first["sentinel"] is False
    assert first["text"]


def test_logs_are_opened_by_inspect_itself(here: Callable[..., Any], folder: Path) -> None:
    log = pytest.importorskip("inspect_ai.log", reason="inspect_ai is not installed (canaryd[inspect])")
    done = here("export", "--series", "main", "--format", "eval", "logs")
    assert done.code == 0, done.err
    files = sorted((folder.parent / "logs").glob("*.eval"))
    assert len(files) == DAYS * 2
    opened = log.read_eval_log(str(files[0]))
    assert (opened.status, opened.eval.task, len(opened.samples)) == ("success", "main", 24)
    scores = [sample.scores["canaryd"].value for sample in opened.samples]
    assert opened.results.scores[0].metrics["mean"].value == pytest.approx(sum(scores) / len(scores))
    assert all("<answer>" in sample.output.completion for sample in opened.samples)


def test_a_series_that_was_measured_elsewhere(here: Callable[..., Any], canaryd: Any, folder: Path) -> None:
    """What another instrument wrote as a table becomes a series with the verdicts that the same data had here."""
    table = here("export", "--series", "main", "--format", "csv", "--without-texts", "-").out
    header, *rows = table.splitlines(keepends=True)
    renamed = header.replace("item_id", "question").replace("slot_date", "day").replace("score", "mark")
    (folder.parent / "theirs.csv").write_text("".join([renamed, *rows]))
    command = ["import", "theirs.csv", "--series", "theirs", "--tracked", "tracked", "--control", "control"]
    command += ["--prereg", "project/prereg.toml", "--column", "item_id=question", "--column", "date=day"]
    incomplete = here(*command)
    assert (incomplete.code, "--column score=NAME" in incomplete.err) == (64, True)
    imported = here(*command, "--column", "score=mark")
    assert imported.code == 0, imported.err
    assert "2 windows decided" in imported.out
    assert here("verify", "--series", "theirs").code == 0
    with open_store(f"sqlite:///{folder / 'canaryd.db'}") as store, store.read() as connection:
        assert read.series(connection, "theirs").imported_at is not None
        ours, theirs = (read.verdicts(connection, name) for name in ("main", "theirs"))
    for left, right in zip(ours, theirs, strict=True):
        assert left.verdict.kind == right.verdict.kind
        assert left.verdict.clauses["arms"]["tracked"]["tokens"] == right.verdict.clauses["arms"]["tracked"]["tokens"]
    for wrong, said in [
        (("--tracked", "nobody"), "no row has the arm 'nobody'"),
        (("--control", "tracked"), "an arm has one role"),
        (("--column", "colour=red"), "--column is 'colour=red'"),
    ]:
        refused = here(*command, "--column", "score=mark", *wrong)
        assert (refused.code, said in refused.err) == (64, True), refused.err


def test_a_copy_is_a_store(here: Callable[..., Any], canaryd: Any, folder: Path) -> None:
    at_home = here("verify").out
    assert here("db", "backup", "copy.db").code == 0
    (folder / "canaryd.db").unlink()
    (folder.parent / "copy.db").rename(folder / "canaryd.db")
    restored = here("verify")
    assert (restored.code, restored.out) == (0, at_home)
    assert here("db", "check").out == f"store sqlite:///{folder / 'canaryd.db'} is whole\n"
    itself = here("db", "backup", "project/canaryd.db")
    assert (itself.code, "is the store itself" in itself.err) == (64, True)
    nowhere = here("db", "backup")
    assert (nowhere.code, "there is no [backup]" in nowhere.err) == (64, True)
    astray = here("db", "backup", "nowhere/copy.db")
    assert (astray.code, "there is no folder nowhere; make it" in astray.err) == (64, True)
    config = folder / "config.toml"
    config.write_text(config.read_text() + '\n[backup]\nfolder = "copies"\n')
    assert here("db", "backup").code == 0
    assert len(list((folder / "copies").glob("canaryd-*.sqlite"))) == 1


def test_only_a_regular_file_is_replaced(here: Callable[..., Any], folder: Path) -> None:
    pipe = folder / "pipe.prom"
    os.mkfifo(pipe)
    for command in (
        ("db", "backup", pipe),
        ("export", "--series", "main", pipe),
        ("metrics", "--textfile", pipe),
    ):
        refused = here(*command)
        assert (refused.code, "is no regular file" in refused.err, pipe.is_fifo()) == (64, True, True), refused.err


def test_old_texts_go_when_told_to_and_nothing_else(here: Callable[..., Any]) -> None:
    at_home = here("verify").out
    asked = here("db", "expire-texts", "--before", "2027-01-13")
    assert (asked.code, "say --yes" in asked.err) == (64, True), "nobody is there to be asked"
    for refused in ("soon", "2027-01-14"):
        assert here("db", "expire-texts", "--before", refused, "--yes").code == 64
    gone = here("db", "expire-texts", "--before", "2027-01-13", "--yes")
    assert f"{DAYS * 24 * 2} reply texts of main before 2027-01-13 deleted" in gone.out, gone.err
    assert f"would delete {DAYS * 24 * 2} reply texts" in asked.err
    verified = here("verify")
    assert (verified.code, verified.out) == (0, at_home)


def test_a_policy_lets_old_texts_go_after_a_days_run(here: Callable[..., Any], folder: Path) -> None:
    url = 'url = "sqlite:///canaryd.db"'
    config = CONFIG.replace(url, f"{url}\nretain_texts_days = 3")
    (folder / "config.toml").write_text(config)
    at_day(folder, 13, hour=3)
    parsed = parse(config, path=folder / "config.toml")
    measure_slot(parsed, parsed.series[0], slot_date=date(2027, 1, 13))
    assert here("verify").code == 0
    again = here("regrade")
    assert (again.code, f"{9 * 24 * 2} " in again.out, "expired" in again.out) == (0, True, True), again.out


def test_a_damaged_store_is_told(here: Callable[..., Any], folder: Path) -> None:
    forge(folder / "canaryd.db", "UPDATE run_end SET run_id = 4711 WHERE run_id = 3")
    damaged = here("db", "check")
    assert damaged.code == 66
    assert "a row of table run_end names a row of run_start that is not there" in damaged.err


def test_an_upgrade_can_be_tried(here: Callable[..., Any], folder: Path) -> None:
    before = (folder / "canaryd.db").read_bytes()
    assert here("db", "upgrade", "--dry-run").out == "schema is current; nothing would change\n"
    with closing(sqlite3.connect(folder / "canaryd.db")) as connection, connection:
        connection.executescript("DROP TRIGGER ledger_no_delete; DELETE FROM ledger WHERE kind = 'rows'")
    downgrade(f"sqlite:///{folder / 'canaryd.db'}", to="0003")
    older = (folder / "canaryd.db").read_bytes()
    tried = here("db", "upgrade", "--dry-run")
    assert (tried.code, tried.out.startswith("would apply schema 0004")) == (0, True), tried.err
    assert (folder / "canaryd.db").read_bytes() == older != before
    assert sorted(path.name for path in folder.glob("canaryd.db*.0003")) == []
