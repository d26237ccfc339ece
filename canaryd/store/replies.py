"""What models said, in the store: a row a reply while its run is open, blocks once it is closed, read run by run.

A reply is durable the moment its row is: packing a run into blocks comes later, in one transaction of its own, and a
run that a killed process left unpacked is packed with the series' next one.
"""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import Connection, Select, delete, func, insert, select

from canaryd.store import schema, texts
from canaryd.store import schema_texts as said
from canaryd.store.engine import Store
from canaryd.store.texts import TextKey

_RUN, _SAMPLE, _REPLY, _BLOCK = schema.run_start.c, schema.sample.c, said.reply_text.c, said.text_block.c


class Replies:
    """The texts of replies, a few runs at a time in memory."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._of_run = lru_cache(maxsize=8)(self._read)

    def text(self, run_id: int, item_id: str, *, replicate: int) -> str | None:
        """Return what was said; None where there was no reply or its text has expired.

        Raises:
            DamagedText: the stored bytes are no text.
        """
        body = self._of_run(run_id).get((item_id, replicate))
        return None if body is None else texts.decode(body)

    def _read(self, run_id: int) -> dict[TextKey, bytes]:
        return texts_of_run(self._connection, run_id)


def keep_text(connection: Connection, sample_id: int, *, text: str) -> None:
    """Store the text of a sample of an open run."""
    connection.execute(insert(said.reply_text).values(sample_id=sample_id, codec="utf8", body=texts.encode(text)))


def texts_of_run(connection: Connection, run_id: int) -> dict[TextKey, bytes]:
    """Return the encoded texts that are there of a run's replies; raise DamagedText where a block is none."""
    found: dict[TextKey, bytes] = {}
    content = select(_BLOCK.content).where(_BLOCK.run_id == run_id).order_by(_BLOCK.number)
    for block in connection.scalars(content):
        found.update(texts.unblock(block))
    for row in connection.execute(_rows_of(run_id)):
        found[row.item_id, row.replicate] = texts.unpack(row.codec, row.body)
    return found


def pack_closed(store: Store, series: str | None = None) -> None:
    """Put the texts of closed runs, of one series or of all, into blocks, run by run, each all or nothing."""
    loose = (
        select(_SAMPLE.run_id)
        .join_from(said.reply_text, schema.sample)
        .join(schema.run_start)
        .join(schema.run_end)
        .distinct()
    )
    if series is not None:
        loose = loose.where(_RUN.series == series)
    with store.read() as connection:
        runs = connection.scalars(loose.order_by(_SAMPLE.run_id)).all()
    for run_id in runs:
        _pack(store, run_id)


def _pack(store: Store, run_id: int) -> None:
    with store.read() as connection:
        rows = connection.execute(_rows_of(run_id)).all()
    # Outside of the transaction: nobody waits for the compression.
    packed = list(texts.blocks(((row.item_id, row.replicate), texts.unpack(row.codec, row.body)) for row in rows))
    of_run = _REPLY.sample_id.in_(select(_SAMPLE.sample_id).where(_SAMPLE.run_id == run_id))
    with store.write() as connection:
        if connection.scalar(select(func.count()).select_from(said.reply_text).where(of_run)) != len(rows):
            return  # Another process packed it, or let it expire.
        for number, block in enumerate(packed, start=1):
            values = {"run_id": run_id, "number": number, "codec": "framed+bz2"}
            connection.execute(insert(said.text_block).values(**values, texts=block.texts, content=block.content))
        connection.execute(delete(said.reply_text).where(of_run))


def _rows_of(run_id: int) -> Select[str, int, str, bytes]:
    return (
        select(_SAMPLE.item_id, _SAMPLE.replicate, _REPLY.codec, _REPLY.body)
        .join_from(schema.sample, said.reply_text)
        .where(_SAMPLE.run_id == run_id)
        .order_by(_SAMPLE.item_id, _SAMPLE.replicate)
    )
