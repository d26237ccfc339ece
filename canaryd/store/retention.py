"""Letting the texts of replies go after a time; their digests, grades and token counts stay for ever."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import delete, insert, select

from canaryd.store import schema
from canaryd.store.engine import Store


def expire_texts(store: Store, series: str, *, before: date, now: datetime) -> int:
    """Delete the reply texts of a series' slots before a day, say so in a row of its own, return how many went.

    A sample whose text has expired keeps its `text_digest`, so that the ledger still covers it and a re-grading can
    tell "expired" from "there was no reply".

    Raises:
        RowRefused: the series does not exist.
    """
    start, sample, reply = schema.run_start.c, schema.sample.c, schema.reply_text.c
    expired = (
        select(sample.sample_id)
        .join(schema.run_start, start.run_id == sample.run_id)
        .where(start.series == series, start.slot_date < before)
    )
    with store.write() as connection:
        connection.execute(insert(schema.text_expiry).values(series=series, before=before, at=now))
        return connection.execute(delete(schema.reply_text).where(reply.sample_id.in_(expired))).rowcount
