"""What models said: durable a reply at a time, packed when the run is closed, the same on both databases."""

from __future__ import annotations

import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select, text

from canaryd.records import Failure, RunEnd
from canaryd.store import replies, samples, texts
from canaryd.store.engine import RowRefused, Store, open_store
from canaryd.store.ledger import first_difference
from canaryd.store.retention import expire_old_texts, expire_texts
from canaryd.store.rows import Span
from canaryd.store.schema_texts import reply_text, text_block, text_expiry
from canaryd.store.write import append_samples, end_run

SAID = {
    "a": "plain",
    "b": "\ud800\x00\n[]\\ud800\ud83d\ude00",
    "c": "é" * 500_000,
    "d": "",
}


def rows(connection: Connection) -> tuple[int, int]:
    """Return how many texts have a row of their own, and how many are in blocks."""
    single = connection.scalar(select(func.count()).select_from(reply_text))
    packed = connection.scalar(select(func.coalesce(func.sum(text_block.c.texts), 0)))
    assert single is not None
    assert packed is not None
    return single, int(packed)


def measured(store: Store, study: Any) -> tuple[Any, Any]:
    """Return the lease and an open run that holds each text of `SAID`."""
    lease = study.register(store)
    (run,) = study.claim(store, lease, study.start())
    append_samples(
        store, [study.sample(run, item, 1.0, text=said) for item, said in SAID.items()], run_id=run.run_id, lease=lease
    )
    return lease, run


def said(store: Store, study: Any) -> dict[str, str | None]:
    with store.read() as connection:
        found = samples.samples(connection, Span("s", "old", study.day_1, study.day_1))
        assert first_difference(connection, "s") is None
    return {each.key.item_id: each.text for each in found}


def test_whatever_a_model_says_comes_back_from_open_and_from_closed_runs(store: Store, study: Any) -> None:
    lease, run = measured(store, study)
    assert said(store, study) == SAID
    with store.read() as connection:
        assert rows(connection) == (4, 0)
    end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lease)
    assert said(store, study) == SAID
    with store.read() as connection:
        assert rows(connection) == (0, 4)
        assert connection.scalar(select(func.count()).select_from(text_block)) == 3


def test_a_run_that_was_killed_before_it_was_packed_is_packed_with_the_next(
    store: Store, study: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, run = measured(store, study)
    with monkeypatch.context() as killed:
        killed.setattr("canaryd.store.replies.pack_closed", lambda store, series: None)
        end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lease)
    (later,) = study.claim(store, lease, study.start(2))
    append_samples(store, [study.sample(later, "a", Failure("timeout", ""))], run_id=later.run_id, lease=lease)
    with store.read() as connection:
        assert rows(connection) == (4, 0)
    end_run(store, RunEnd(study.now, "incomplete"), run_id=later.run_id, lease=lease)
    with store.read() as connection:
        assert rows(connection) == (0, 4)
    assert said(store, study) == SAID


def test_texts_of_an_older_canaryd_are_read_and_packed(
    store: Store, study: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep_compressed(connection: Connection, sample_id: int, *, text: str) -> None:
        body = zlib.compress(texts.encode(text))
        connection.execute(reply_text.insert().values(sample_id=sample_id, codec="utf8+zlib", body=body))

    monkeypatch.setattr(replies, "keep_text", keep_compressed)
    lease, run = measured(store, study)
    assert said(store, study) == SAID
    end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lease)
    assert said(store, study) == SAID


def test_packing_twice_at_once_keeps_each_text_once(store: Store, study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lease, run = measured(store, study)
    blocks = texts.blocks

    def while_another_does_it(bodies: Any) -> Any:
        monkeypatch.setattr(texts, "blocks", blocks)
        replies.pack_closed(store)
        return blocks(bodies)

    monkeypatch.setattr(texts, "blocks", while_another_does_it)
    end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lease)
    with store.read() as connection:
        assert rows(connection) == (0, 4)
    assert said(store, study) == SAID


def test_old_texts_expire_by_the_policy_and_new_ones_stay(store: Store, study: Any) -> None:
    lease = study.register(store)
    for day in range(1, 6):
        (run,) = study.claim(store, lease, study.start(day))
        append_samples(store, [study.sample(run, "a", 1.0)], run_id=run.run_id, lease=lease)
        end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lease)
    today = study.day_1 + timedelta(days=4)
    for keep_days, gone in ((30, 0), (4, 0), (2, 2), (2, 0)):
        assert expire_old_texts(store, "s", keep_days=keep_days, today=today, now=study.now) == gone
    with store.read() as connection:
        assert rows(connection) == (0, 3)
        assert connection.scalar(select(func.count()).select_from(text_expiry)) == 1
        assert first_difference(connection, "s") is None
        found = samples.samples(connection, Span("s", "old", study.day_1, today))
    assert [each.text for each in found] == [None, None, "x", "x", "x"]
    assert None not in [each.text_digest for each in found]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_text_that_has_expired_is_not_in_the_file(store_url: str, study: Any) -> None:
    path = Path(store_url.removeprefix("sqlite:///"))
    with open_store(store_url) as store:
        lease = study.register(store)
        (run,) = study.claim(store, lease, study.start())
        secret = "a secret that a model told " * 200
        append_samples(store, [study.sample(run, "a", 1.0, text=secret)], run_id=run.run_id, lease=lease)
    assert b"a secret that a model told" in path.read_bytes()
    with open_store(store_url) as store:
        assert expire_texts(store, "s", before=study.day_1 + timedelta(days=1), now=study.now) == 1
    assert b"a secret that a model told" not in path.read_bytes()


def test_a_block_never_changes_and_never_goes_before_its_texts_expire(store: Store, study: Any) -> None:
    lease, run = measured(store, study)
    end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lease)
    for statement in ("UPDATE text_block SET texts = 9", "DELETE FROM text_block"):
        with pytest.raises(RowRefused, match="text_block is append-only"), store.write() as connection:
            connection.execute(text(statement))
    (later,) = study.claim(store, lease, study.start(2))
    append_samples(store, [study.sample(later, "a", 1.0)], run_id=later.run_id, lease=lease)
    with pytest.raises(RowRefused, match="reply_text is append-only"), store.write() as connection:
        connection.execute(reply_text.delete())
