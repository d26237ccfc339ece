"""The tables of judged items: which they are, how the judge judged its anchors, and what it used up."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, ForeignKey, Integer, Table

from canaryd.store.metadata import metadata
from canaryd.store.types import AnyText, CanonicalJson, Flag

#: The items of a series that a judge grades; `measured` says whether the registration lets them into the estimates.
judged_item = Table(
    "judged_item",
    metadata,
    Column("series", ForeignKey("series.name"), primary_key=True),
    Column("item_id", AnyText, primary_key=True),
    Column("measured", Flag, nullable=False),
    sqlite_strict=True,
)

#: What the judge said of its anchors, before the items of the slot; the run is the first that was claimed with it.
judge_reading = Table(
    "judge_reading",
    metadata,
    Column("run_id", ForeignKey("run_start.run_id"), primary_key=True, autoincrement=False),
    Column("identity", AnyText, nullable=False),
    Column("resolved", CanonicalJson, nullable=False),
    Column("said", CanonicalJson, nullable=False),
    Column("people", CanonicalJson, nullable=False),
    sqlite_strict=True,
)

judge_usage = Table(
    "judge_usage",
    metadata,
    Column("run_id", ForeignKey("run_start.run_id"), primary_key=True, autoincrement=False),
    Column("calls", Integer, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    CheckConstraint("calls >= 0 AND input_tokens >= 0 AND output_tokens >= 0", name="counts"),
    sqlite_strict=True,
)
