"""The tables beside the alarm states: what a person acknowledged, and what the webhook was told."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, ForeignKey, Integer, Table

from canaryd.store.metadata import metadata
from canaryd.store.types import AnyText, UTCDateTime

acknowledgement = Table(
    "acknowledgement",
    metadata,
    Column("acknowledgement_id", Integer, primary_key=True),
    Column("series", ForeignKey("series.name"), nullable=False, index=True),
    Column("state", AnyText, nullable=False),
    Column("at", UTCDateTime, nullable=False),
    Column("until", UTCDateTime, nullable=False),
    Column("reason", AnyText, nullable=False),
    sqlite_strict=True,
)

webhook_delivery = Table(
    "webhook_delivery",
    metadata,
    Column("series", ForeignKey("series.name"), primary_key=True),
    Column("notice", AnyText, primary_key=True),
    Column("outcome", AnyText, nullable=False),
    Column("at", UTCDateTime, nullable=False),
    CheckConstraint("outcome IN ('accepted', 'silenced')", name="outcome"),
    sqlite_strict=True,
)
