"""The tables of the measurement contract: harness, target, epochs, what people said, what happened, sentinels."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, ForeignKey, ForeignKeyConstraint, Integer, Table, UniqueConstraint

from canaryd.store.metadata import metadata
from canaryd.store.types import AnyText, CanonicalJson, Day, Real, UTCDateTime

fingerprint = Table(
    "fingerprint",
    metadata,
    Column("digest", AnyText, primary_key=True),
    Column("components", CanonicalJson, nullable=False),
    sqlite_strict=True,
)

run_target = Table(
    "run_target",
    metadata,
    Column("run_id", ForeignKey("run_start.run_id"), primary_key=True, autoincrement=False),
    Column("recorded", CanonicalJson, nullable=False),
    sqlite_strict=True,
)

run_surroundings = Table(
    "run_surroundings",
    metadata,
    Column("run_id", ForeignKey("run_start.run_id"), primary_key=True, autoincrement=False),
    Column("recorded", CanonicalJson, nullable=False),
    sqlite_strict=True,
)

run_usage = Table(
    "run_usage",
    metadata,
    Column("run_id", ForeignKey("run_start.run_id"), primary_key=True, autoincrement=False),
    Column("calls", Integer, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    CheckConstraint("calls >= 0 AND input_tokens >= 0 AND output_tokens >= 0", name="counts"),
    sqlite_strict=True,
)

run_duration = Table(
    "run_duration",
    metadata,
    Column("run_id", ForeignKey("run_start.run_id"), primary_key=True, autoincrement=False),
    Column("seconds", Real, nullable=False),
    CheckConstraint("seconds >= 0", name="seconds"),
    sqlite_strict=True,
)

run_report = Table(
    "run_report",
    metadata,
    Column("run_id", ForeignKey("run_start.run_id"), primary_key=True, autoincrement=False),
    Column("first", CanonicalJson, nullable=False),
    Column("last", CanonicalJson, nullable=False),
    sqlite_strict=True,
)

epoch = Table(
    "epoch",
    metadata,
    Column("series", ForeignKey("series.name"), primary_key=True),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("first_date", Day, nullable=False),
    Column("deviation_id", ForeignKey("deviation.deviation_id"), nullable=False),
    CheckConstraint("epoch >= 2", name="epoch"),
    sqlite_strict=True,
)

deviation = Table(
    "deviation",
    metadata,
    Column("deviation_id", Integer, primary_key=True),
    Column("series", ForeignKey("series.name"), nullable=False, index=True),
    Column("kind", AnyText, nullable=False),
    Column("slot_date", Day, nullable=False),
    Column("reason", AnyText, nullable=False),
    Column("detail", CanonicalJson, nullable=False),
    Column("at", UTCDateTime, nullable=False),
    CheckConstraint("kind IN ('noted', 'accepted', 'equivalent', 'rebaseline', 'no_canary', 'ack')", name="kind"),
    sqlite_strict=True,
)

event = Table(
    "event",
    metadata,
    Column("event_id", Integer, primary_key=True),
    Column("series", AnyText, nullable=False),
    Column("arm", AnyText, nullable=False),
    Column("slot_date", Day, nullable=False),
    Column("kind", AnyText, nullable=False),
    Column("detail", CanonicalJson, nullable=False),
    Column("at", UTCDateTime, nullable=False),
    ForeignKeyConstraint(["series", "arm"], ["arm.series", "arm.arm"]),
    UniqueConstraint("series", "slot_date", "arm", "kind"),
    CheckConstraint("kind IN ('model_roll', 'input_tokens', 'configuration', 'canary_answer')", name="kind"),
    sqlite_strict=True,
)

sentinel_baseline = Table(
    "sentinel_baseline",
    metadata,
    Column("series", ForeignKey("series.name"), primary_key=True),
    Column("item_id", AnyText, primary_key=True),
    Column("n", Integer, nullable=False),
    Column("total", Real, nullable=False),
    Column("total_sq", Real, nullable=False),
    Column("at", UTCDateTime, nullable=False),
    CheckConstraint("total BETWEEN 0 AND n AND total_sq BETWEEN 0 AND n", name="sums"),
    sqlite_strict=True,
)

sentinel_day = Table(
    "sentinel_day",
    metadata,
    Column("series", ForeignKey("series.name"), primary_key=True),
    Column("slot_date", Day, primary_key=True),
    Column("item_id", AnyText, primary_key=True),
    Column("state", AnyText, nullable=False),
    Column("baseline_n", Integer, nullable=False),
    Column("baseline_mean", Real),
    Column("today_mean", Real),
    Column("low", Real),
    Column("high", Real),
    CheckConstraint("state IN ('warming_up', 'ok', 'moved', 'unjudged')", name="state"),
    sqlite_strict=True,
)

sentinel_usage = Table(
    "sentinel_usage",
    metadata,
    Column("usage_id", Integer, primary_key=True),
    Column("series", AnyText, nullable=False),
    Column("arm", AnyText, nullable=False),
    Column("slot_date", Day, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    ForeignKeyConstraint(["series", "arm"], ["arm.series", "arm.arm"]),
    CheckConstraint("calls >= 0 AND input_tokens >= 0 AND output_tokens >= 0", name="counts"),
    sqlite_strict=True,
)
