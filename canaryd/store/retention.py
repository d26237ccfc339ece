"""Letting the texts of replies go after a time; their digests, grades and token counts stay for ever."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from sqlalchemy import Connection, Select, delete, func, insert, select

from canaryd.store import schema
from canaryd.store import schema_texts as said
from canaryd.store.engine import Store


def expire_old_texts(store: Store, series: str, *, keep_days: int, today: date, now: datetime) -> int:
    """Let the texts of a series go that are of slots more than `keep_days` days ago; return how many went.

    Nothing is stored where there is none: the policy is applied every day.
    """
    block = said.text_block.c
    before = today - timedelta(days=keep_days)
    old = _runs_before(series, before)
    with store.read() as connection:
        is_owed = connection.execute(select(block.run_id).where(block.run_id.in_(old)).limit(1)).first() is not None
    return expire_texts(store, series, before=before, now=now) if is_owed else 0


def stored_texts(connection: Connection, series: str, *, before: date) -> int:
    """Return how many reply texts of a series' slots before a day are there; `expire_texts` deletes as many."""
    sample, reply, block = schema.sample.c, said.reply_text.c, said.text_block.c
    runs = _runs_before(series, before)
    single = select(func.count()).select_from(said.reply_text).join(schema.sample, sample.sample_id == reply.sample_id)
    packed = select(func.coalesce(func.sum(block.texts), 0)).where(block.run_id.in_(runs))
    return int(connection.scalar(single.where(sample.run_id.in_(runs))) or 0) + int(connection.scalar(packed) or 0)


def expire_texts(store: Store, series: str, *, before: date, now: datetime) -> int:
    """Delete the reply texts of a series' slots before a day, say so in a row of its own, return how many went.

    A sample whose text has expired keeps its `text_digest`, so that the ledger still covers it and a re-grading can
    tell "expired" from "there was no reply".

    Raises:
        RowRefused: the series does not exist.
    """
    runs = _runs_before(series, before)
    expired = select(schema.sample.c.sample_id).where(schema.sample.c.run_id.in_(runs))
    with store.write() as connection:
        gone = stored_texts(connection, series, before=before)
        connection.execute(insert(said.text_expiry).values(series=series, before=before, at=now))
        connection.execute(delete(said.reply_text).where(said.reply_text.c.sample_id.in_(expired)))
        connection.execute(delete(said.text_block).where(said.text_block.c.run_id.in_(runs)))
        return gone


def _runs_before(series: str, before: date) -> Select[tuple[int]]:
    start = schema.run_start.c
    return select(start.run_id).where(start.series == series, start.slot_date < before)
