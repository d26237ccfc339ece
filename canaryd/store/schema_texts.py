"""The tables of what models said: a row a reply while its run is open, compressed blocks once it is closed."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, ForeignKey, Integer, LargeBinary, Table

from canaryd.store.metadata import metadata
from canaryd.store.types import AnyText, Day, UTCDateTime

reply_text = Table(
    "reply_text",
    metadata,
    Column("sample_id", ForeignKey("sample.sample_id"), primary_key=True, autoincrement=False),
    Column("codec", AnyText, nullable=False),
    Column("body", LargeBinary, nullable=False),
    CheckConstraint("codec IN ('utf8', 'utf8+zlib')", name="codec"),
    sqlite_strict=True,
)

text_block = Table(
    "text_block",
    metadata,
    Column("run_id", ForeignKey("run_start.run_id"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("texts", Integer, nullable=False),
    Column("codec", AnyText, nullable=False),
    Column("content", LargeBinary, nullable=False),
    CheckConstraint("codec IN ('framed+bz2')", name="codec"),
    CheckConstraint("texts >= 1", name="texts"),
    sqlite_strict=True,
)

text_expiry = Table(
    "text_expiry",
    metadata,
    Column("expiry_id", Integer, primary_key=True),
    Column("series", ForeignKey("series.name"), nullable=False, index=True),
    Column("before", Day, nullable=False),
    Column("at", UTCDateTime, nullable=False),
    sqlite_strict=True,
)
