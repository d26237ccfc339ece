"""The hash chain: it grows with what is stored, and any later change is found and named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, text

from canaryd.errors import Locked
from canaryd.records import Failure, RunEnd, Verdict
from canaryd.store import samples
from canaryd.store.engine import RowRefused, Store, parse_url
from canaryd.store.epochs import Deviation, add_deviation, open_epoch
from canaryd.store.lease import acquire_lease
from canaryd.store.ledger import Difference, Head, first_difference, head
from canaryd.store.retention import expire_texts
from canaryd.store.rows import Invalid, Span
from canaryd.store.write import append_samples, append_validity, append_verdict, end_run, record_missed

AT = datetime(2030, 1, 5, tzinfo=UTC)
HEAD = Head(8, "sha256:827439355608095288fb9e1816fbbbc3287ac76c77dec64b2f490fde750297e8")


def verdict(**changes: Any) -> Verdict:
    values: dict[str, Any] = {
        "series": "s", "epoch": 1, "window_index": 1, "kind": "no_change_detected", "direction": None,
        "attribution": None, "reasons": (), "decided_at": AT, "panel_digest": "p", "registration_digest": "r",
        "clauses": {"delta": 0.1},
    }  # fmt: skip
    return Verdict(**values | changes)


@pytest.fixture
def filled(store: Store, study: Any) -> Store:
    """Return a store with two closed runs, a missed one, a note on a sample, one on a run, and two verdicts."""
    lease = study.register(store)
    for day in (1, 2):
        (run,) = study.claim(store, lease, study.start(day))
        content = [
            study.sample(run, "a", 1.0, text="said " * 100),
            study.sample(run, "b", 0.3, text="\ud800\x00"),
            study.sample(run, "c", Failure("timeout", "after 60 s")),
        ]
        ids = append_samples(store, content, run_id=run.run_id, lease=lease)
        end_run(store, RunEnd(AT, "completed"), run_id=run.run_id, lease=lease)
    record_missed(store, [study.start(3)], end=RunEnd(AT, "missed", "asleep"), lease=lease, epoch=1)
    append_validity(store, Invalid("operator", "typo", AT, sample_id=ids[0]))
    append_validity(store, Invalid("zero_outputs", "", AT, run_id=run.run_id))
    first = append_verdict(store, verdict(), lease=lease)
    append_verdict(store, verdict(supersedes=first, decided_at=AT + timedelta(days=1)), lease=lease)
    return store


@contextmanager
def forger(url: str) -> Iterator[Connection]:
    """Yield a connection on which no trigger and no foreign key is in the way."""
    engine = create_engine(parse_url(url))
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.execute(text("PRAGMA ignore_check_constraints = ON"))
            triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            for name in connection.execute(text(triggers)).scalars().all():
                connection.execute(text(f"DROP TRIGGER {name}"))
        else:
            connection.execute(text("SET session_replication_role = replica"))
        connection.commit()
        yield connection
    engine.dispose()


def found_after(connection: Connection, forgery: str) -> str:
    """Return what the ledger finds after a forgery, and undo that."""
    assert connection.execute(text(forgery)).rowcount > 0, forgery
    found = first_difference(connection, "s")
    connection.rollback()
    return str(found)


def difference(store: Store) -> str | None:
    with store.read() as connection:
        found = first_difference(connection, "s")
    return None if found is None else str(found)


def test_the_chain_covers_registration_runs_notes_and_verdicts(filled: Store) -> None:
    with filled.read() as connection:
        end = head(connection, "s")
        assert head(connection, "nosuch") is None
    assert end is not None
    assert end.entries == 1 + 3 + 2 + 2
    assert end.digest.startswith("sha256:")
    assert difference(filled) is None


def test_an_open_run_is_not_in_the_chain_yet(store: Store, study: Any) -> None:
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    append_samples(store, [study.sample(run, "a", 1.0)], run_id=run.run_id, lease=lease)
    with store.read() as connection:
        before = head(connection, "s")
        assert first_difference(connection, "s") is None
    end_run(store, RunEnd(AT, "completed"), run_id=run.run_id, lease=lease)
    with store.read() as connection:
        after = head(connection, "s")
    assert before is not None
    assert after is not None
    assert (before.entries, after.entries) == (1, 2)
    assert before.digest != after.digest


def test_the_same_rows_have_the_same_head_on_every_database(filled: Store) -> None:
    with filled.read() as connection:
        assert head(connection, "s") == HEAD


OF_DAY_1, OF_DAY_2 = "of old 2030-01-01", "of old 2030-01-02"
FIRST_RUN = "(SELECT min(run_id) FROM run_start)"
ADD_SAMPLE = (
    "INSERT INTO sample (run_id, item_id, replicate, asked_at, ended_at, calls, failure_kind, failure_detail) "
    "SELECT run_id, 'd', 0, asked_at, ended_at, 1, 'empty', '' FROM sample WHERE item_id = 'c'"
)
ADD_NOTE = (
    "INSERT INTO validity (run_id, reason, detail, at) "
    f"SELECT run_id, 'operator', '', started_at FROM run_start WHERE run_id = {FIRST_RUN}"
)
ADD_TEXT = (
    "INSERT INTO reply_text (sample_id, codec, body) SELECT sample_id, 'utf8', content FROM sample, panel "
    "WHERE item_id = '{item}'"
)
FORGERIES = [
    ("UPDATE sample SET score = 0.9 WHERE item_id = 'b'", f"sample b/0 {OF_DAY_1} attempt 1 differs", 2),
    ("UPDATE sample SET output_tokens = 1 WHERE item_id = 'c'", f"sample c/0 {OF_DAY_1} attempt 1 differs", 2),
    ("DELETE FROM sample WHERE item_id = 'c'", f"sample c/0 {OF_DAY_1} attempt 1 is missing", 2),
    (ADD_SAMPLE, f"sample d/0 {OF_DAY_1} attempt 1 was added", 2),
    ("UPDATE run_end SET reason = '' WHERE outcome = 'missed'", "end of run old 2030-01-03 attempt 1 differs", 4),
    ("UPDATE run_start SET fingerprint = 'x'", "start of run old 2030-01-01 attempt 1 differs", 2),
    ("UPDATE series SET registration = panel.content FROM panel", "series s differs", 1),
    ("UPDATE arm SET model = 'better' WHERE arm = 'ctl'", "arm ctl differs", 1),
    ("UPDATE panel_item SET cluster = 'z' WHERE item_id = 'b'", "item b differs", 1),
    (
        "DELETE FROM validity WHERE reason = 'operator'",
        f"validity note on sample a/0 {OF_DAY_2} attempt 1 is missing",
        5,
    ),
    (ADD_NOTE, "validity note on old 2030-01-01 attempt 1 was added", None),
    ("UPDATE verdict SET kind = 'pending' WHERE supersedes IS NULL", "verdict of epoch 1 window 1 differs", 7),
    ("DELETE FROM ledger WHERE position = 3", "ledger entry 3 is missing", 3),
    ("DELETE FROM ledger WHERE position = 8", "verdict of epoch 1 window 1 was added", None),
    ("UPDATE ledger SET digest = 'sha256:0' WHERE position = 2", "ledger entry 2 differs", 2),
    (
        "UPDATE ledger SET manifest = (SELECT content FROM panel) WHERE position = 2",
        "manifest of ledger entry 2 differs",
        2,
    ),
    ("DELETE FROM text_block", f"text of sample a/0 {OF_DAY_1} is missing", None),
    ("UPDATE text_block SET content = (SELECT content FROM panel)", f"a text {OF_DAY_1} differs", None),
    (ADD_TEXT.format(item="c"), f"text of sample c/0 {OF_DAY_1} was added", None),
    (ADD_TEXT.format(item="a"), f"text of sample a/0 {OF_DAY_1} differs", None),
]


def test_a_forged_row_is_named(filled: Store, store_url: str) -> None:
    with forger(store_url) as connection:
        for forgery, named, entry in FORGERIES:
            where = "outside the ledger" if entry is None else f"ledger entry {entry}"
            assert found_after(connection, forgery) == f"{named} ({where})"
    assert difference(filled) is None


def test_a_change_reads_as_a_sentence() -> None:
    assert str(Difference("was added", "arm x", 1)) == "arm x was added (ledger entry 1)"


def test_a_failed_write_leaves_the_chain_as_it_was(filled: Store, study: Any) -> None:
    with filled.read() as connection:
        before = head(connection, "s")
    with pytest.raises(RowRefused):
        append_validity(filled, Invalid("operator", "", AT, run_id=10_000))
    lost = acquire_lease(filled, "s", holder=study.holder(2), now=AT, policy=study.policy)
    acquire_lease(filled, "s", holder=study.holder(3), now=AT + timedelta(days=1), policy=study.policy)
    with pytest.raises(Locked):
        append_verdict(filled, verdict(window_index=2), lease=lost)
    with filled.read() as connection:
        assert head(connection, "s") == before


def test_an_expired_text_keeps_its_digest_and_the_ledger(filled: Store) -> None:
    with pytest.raises(RowRefused, match="let a text expire first"), filled.write() as connection:
        connection.execute(text("DELETE FROM text_block"))
    assert expire_texts(filled, "s", before=date(2030, 1, 2), now=AT) == 2
    assert difference(filled) is None
    with filled.read() as connection:
        found = samples.samples(connection, Span("s", "old", date(2030, 1, 1), date(2030, 1, 2)), include_invalid=True)
    kept = {(each.key.slot_date.day, each.key.item_id): each.text for each in found if each.text is not None}
    assert kept == {(2, "a"): "said " * 100, (2, "b"): "\ud800\x00"}
    assert {each.key.item_id for each in found if each.text_digest is None} == {"c"}
    with pytest.raises(RowRefused, match="let a text expire first"), filled.write() as connection:
        connection.execute(text("DELETE FROM text_block"))
    assert expire_texts(filled, "s", before=date(2030, 1, 2), now=AT) == 0


def test_texts_expire_for_one_series_alone(filled: Store, study: Any) -> None:
    other = study.register(filled, "other")
    (run,) = study.claim(filled, other, study.start(series="other"))
    append_samples(filled, [study.sample(run, "a", 1.0)], run_id=run.run_id, lease=other)
    assert expire_texts(filled, "s", before=date(2040, 1, 1), now=AT) == 4
    with filled.read() as connection:
        (kept,) = samples.samples(connection, Span("other", "old", study.day_1, study.day_1))
    assert kept.text == "x"
    with pytest.raises(RowRefused):
        expire_texts(filled, "nosuch", before=date(2040, 1, 1), now=AT)


DECIDED = {
    "UPDATE deviation SET reason = 'all is well' WHERE kind = 'noted'": "deviation noted of 2030-01-02 differs",
    "DELETE FROM deviation WHERE kind = 'noted'": "deviation noted of 2030-01-02 is missing",
    "UPDATE epoch SET first_date = '2030-01-05'": "epoch 2 differs",
    "DELETE FROM epoch": "epoch 2 is missing",
    "DELETE FROM ledger WHERE kind = 'deviation' AND position = 4": "deviation rebaseline of 2030-01-04 was added",
}


def test_what_people_decided_cannot_vanish(store: Store, store_url: str, study: Any) -> None:
    study.register(store)
    note = Deviation("s", "noted", date(2030, 1, 2), "a new proxy", {"host": "h"}, AT)
    add_deviation(store, note)
    add_deviation(store, replace(note, kind="ack"))
    opening = replace(note, kind="rebaseline", slot_date=date(2030, 1, 4))
    open_epoch(store, opening, number=2)
    with store.read() as connection:
        before = head(connection, "s")
    assert before is not None
    assert before.entries == 4
    assert difference(store) is None
    with pytest.raises(RowRefused):
        open_epoch(store, opening, number=2)
    with pytest.raises(RowRefused):
        add_deviation(store, replace(note, series="nosuch"))
    with store.read() as connection:
        assert head(connection, "s") == before
    with forger(store_url) as connection:
        for forgery, named in DECIDED.items():
            assert found_after(connection, forgery).startswith(named)
