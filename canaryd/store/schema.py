"""The tables of the store, named in the singular. Read this file to know what canaryd keeps.

Rows are only ever added: triggers of the migrations refuse UPDATE and DELETE on every table of `APPEND_ONLY`, and a
correction is a new row that names what it supersedes. Three are mutable: `lease`, who may write a series now, and
`day_total` and `run_total`, which are derived from the samples and may be made again at any time.
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    UniqueConstraint,
    column,
    table,
)

from canaryd.records import FAILURE_KINDS
from canaryd.store.metadata import metadata
from canaryd.store.schema_alarms import acknowledgement, webhook_delivery
from canaryd.store.schema_contract import (
    deviation,
    epoch,
    event,
    fingerprint,
    run_duration,
    run_report,
    run_surroundings,
    run_target,
    run_usage,
    sentinel_baseline,
    sentinel_day,
    sentinel_usage,
)
from canaryd.store.schema_judges import judge_reading, judge_usage, judged_item
from canaryd.store.schema_regrades import regrade, regrade_difference
from canaryd.store.schema_studies import registration_document, study, study_sample
from canaryd.store.schema_texts import reply_text, text_block, text_expiry
from canaryd.store.types import AnyText, CanonicalJson, Day, Flag, Real, UTCDateTime, WideInteger

#: Every schema revision, oldest first; the last is the one this canaryd reads and writes. A test holds it to
#: the migrations.
REVISIONS = tuple(f"{number:04}" for number in range(1, 19))

panel = Table(
    "panel",
    metadata,
    Column("digest", AnyText, primary_key=True),
    Column("name", AnyText, nullable=False),
    Column("version", AnyText, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("system", LargeBinary, nullable=False),
    sqlite_strict=True,
)

panel_item = Table(
    "panel_item",
    metadata,
    Column("panel_digest", ForeignKey("panel.digest"), primary_key=True),
    Column("item_id", AnyText, primary_key=True),
    Column("ordinal", Integer, nullable=False),
    Column("family", AnyText),
    Column("cluster", AnyText, nullable=False),
    Column("sentinel", Flag, nullable=False),
    Column("replicates", Integer, nullable=False),
    Column("target_label", AnyText),
    CheckConstraint("replicates >= 1", name="replicates"),
    sqlite_strict=True,
)

series = Table(
    "series",
    metadata,
    Column("name", AnyText, primary_key=True),
    Column("registered_at", UTCDateTime, nullable=False),
    Column("start_date", Day, nullable=False),
    Column("seed", WideInteger, nullable=False),
    Column("panel_digest", ForeignKey("panel.digest"), nullable=False),
    Column("registration_digest", AnyText, nullable=False),
    Column("registration", LargeBinary, nullable=False),
    Column("simulation", CanonicalJson),
    Column("imported_at", UTCDateTime),
    sqlite_strict=True,
)

arm = Table(
    "arm",
    metadata,
    Column("series", ForeignKey("series.name"), primary_key=True),
    Column("arm", AnyText, primary_key=True),
    Column("role", AnyText, nullable=False),
    Column("provider", AnyText, nullable=False),
    Column("model", AnyText, nullable=False),
    Column("config", CanonicalJson, nullable=False),
    CheckConstraint("role IN ('tracked', 'control', 'replica')", name="role"),
    sqlite_strict=True,
)
Index(
    "uq_arm_one_tracked",
    arm.c.series,
    unique=True,
    sqlite_where=arm.c.role == "tracked",
)

run_start = Table(
    "run_start",
    metadata,
    Column("run_id", Integer, primary_key=True),
    Column("series", AnyText, nullable=False),
    Column("arm", AnyText, nullable=False),
    Column("slot_date", Day, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("started_at", UTCDateTime, nullable=False),
    Column("due_at", UTCDateTime, nullable=False),
    Column("panel_digest", AnyText, nullable=False),
    Column("registration_digest", AnyText, nullable=False),
    Column("fingerprint", AnyText),
    Column("epoch", Integer, nullable=False),
    Column("term", Integer, nullable=False),
    ForeignKeyConstraint(["series", "arm"], ["arm.series", "arm.arm"]),
    UniqueConstraint("series", "slot_date", "arm", "attempt"),
    CheckConstraint("attempt >= 1", name="attempt"),
    sqlite_strict=True,
)

run_end = Table(
    "run_end",
    metadata,
    Column("run_id", ForeignKey("run_start.run_id"), primary_key=True, autoincrement=False),
    Column("ended_at", UTCDateTime, nullable=False),
    Column("outcome", AnyText, nullable=False),
    Column("reason", AnyText, nullable=False),
    CheckConstraint(
        "outcome IN ('completed', 'incomplete', 'config_error', 'refused', 'missed', 'abandoned')", name="outcome"
    ),
    sqlite_strict=True,
)

sample = Table(
    "sample",
    metadata,
    Column("sample_id", Integer, primary_key=True),
    Column("run_id", ForeignKey("run_start.run_id"), nullable=False),
    Column("item_id", AnyText, nullable=False),
    Column("replicate", Integer, nullable=False),
    Column("asked_at", UTCDateTime, nullable=False),
    Column("ended_at", UTCDateTime, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("score", Real),
    Column("answered", Flag),
    Column("passed", Flag),
    Column("grade_detail", AnyText),
    Column("grader", AnyText),
    Column("failure_kind", AnyText),
    Column("failure_detail", AnyText),
    Column("stop", AnyText),
    Column("resolved_model", AnyText),
    Column("standing", AnyText),
    Column("response_id", AnyText),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("text_digest", AnyText),
    Column("system_fingerprint", AnyText),
    UniqueConstraint("run_id", "item_id", "replicate"),
    CheckConstraint("(score IS NULL) <> (failure_kind IS NULL)", name="grade_or_failure"),
    CheckConstraint("score >= 0 AND score <= 1", name="score"),
    CheckConstraint(
        f"failure_kind IN ({', '.join(repr(kind) for kind in sorted(FAILURE_KINDS))})", name="failure_kind"
    ),
    CheckConstraint(
        "(score IS NULL) = (answered IS NULL) AND (score IS NULL) = (passed IS NULL) "
        "AND (score IS NULL) = (grader IS NULL) AND (score IS NULL) = (grade_detail IS NULL)",
        name="whole_grade",
    ),
    CheckConstraint(
        "(stop IS NULL) = (text_digest IS NULL) AND (stop IS NULL) = (standing IS NULL)", name="whole_reply"
    ),
    CheckConstraint("input_tokens >= 0 AND output_tokens >= 0 AND reasoning_tokens >= 0", name="tokens"),
    Index(None, "response_id"),
    sqlite_strict=True,
)

validity = Table(
    "validity",
    metadata,
    Column("validity_id", Integer, primary_key=True),
    Column("run_id", ForeignKey("run_start.run_id"), index=True),
    Column("sample_id", ForeignKey("sample.sample_id"), index=True),
    Column("reason", AnyText, nullable=False),
    Column("detail", AnyText, nullable=False),
    Column("at", UTCDateTime, nullable=False),
    CheckConstraint("(run_id IS NULL) <> (sample_id IS NULL)", name="run_or_sample"),
    sqlite_strict=True,
)

verdict = Table(
    "verdict",
    metadata,
    Column("verdict_id", Integer, primary_key=True),
    Column("series", ForeignKey("series.name"), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("window_index", Integer, nullable=False),
    Column("kind", AnyText, nullable=False),
    Column("direction", AnyText),
    Column("attribution", AnyText),
    Column("reasons", CanonicalJson, nullable=False),
    Column("decided_at", UTCDateTime, nullable=False),
    Column("panel_digest", AnyText, nullable=False),
    Column("registration_digest", AnyText, nullable=False),
    Column("clauses", CanonicalJson, nullable=False),
    Column("supersedes", ForeignKey("verdict.verdict_id"), unique=True),
    CheckConstraint("(kind = 'change') = (direction IS NOT NULL)", name="direction"),
    sqlite_strict=True,
)
Index(
    "uq_verdict_first",
    verdict.c.series,
    verdict.c.epoch,
    verdict.c.window_index,
    unique=True,
    sqlite_where=verdict.c.supersedes.is_(None),
)

alarm = Table(
    "alarm",
    metadata,
    Column("alarm_id", Integer, primary_key=True),
    Column("series", ForeignKey("series.name"), nullable=False, index=True),
    Column("state", AnyText, nullable=False),
    Column("since", UTCDateTime, nullable=False),
    Column("verdict_id", ForeignKey("verdict.verdict_id")),
    sqlite_strict=True,
)

early_warning = Table(
    "early_warning",
    metadata,
    Column("series", ForeignKey("series.name"), primary_key=True),
    Column("stream", AnyText, primary_key=True),
    Column("segment", Integer, primary_key=True),
    Column("slot_date", Day, primary_key=True),
    Column("rank", Integer, nullable=False),
    Column("capital", Real, nullable=False),
    Column("threshold", Real, nullable=False),
    Column("alarm", Flag, nullable=False),
    Column("onset", Day),
    # PostgreSQL sorts NaN above every number, so the upper bound keeps it out; SQLite turns it into NULL.
    CheckConstraint("capital BETWEEN 0 AND 1.7976931348623157e308", name="capital"),
    sqlite_strict=True,
)

ledger = Table(
    "ledger",
    metadata,
    Column("series", ForeignKey("series.name"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("kind", AnyText, nullable=False),
    Column("row_id", Integer),
    Column("digest", AnyText, nullable=False),
    Column("manifest", LargeBinary, nullable=False),
    UniqueConstraint("kind", "row_id"),
    CheckConstraint("kind IN ('series', 'run', 'validity', 'verdict', 'deviation', 'rows')", name="kind"),
    CheckConstraint(
        "(kind = 'series') = (position = 1) AND (kind IN ('series', 'rows')) = (row_id IS NULL)", name="genesis"
    ),
    sqlite_strict=True,
)

day_total = Table(
    "day_total",
    metadata,
    Column("series", AnyText, primary_key=True),
    Column("arm", AnyText, primary_key=True),
    Column("slot_date", Day, primary_key=True),
    Column("value", AnyText, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    ForeignKeyConstraint(["series", "arm"], ["arm.series", "arm.arm"]),
    sqlite_strict=True,
)

run_total = Table(
    "run_total",
    metadata,
    Column("run_id", ForeignKey("run_start.run_id"), primary_key=True, autoincrement=False),
    Column("samples", Integer, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("reasoning_tokens", Integer, nullable=False),
    Column("failures", CanonicalJson, nullable=False),
    sqlite_strict=True,
)

lease = Table(
    "lease",
    metadata,
    Column("series", ForeignKey("series.name"), primary_key=True),
    Column("term", Integer, nullable=False),
    Column("host", AnyText, nullable=False),
    Column("machine", AnyText, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_start", WideInteger, nullable=False),
    Column("heartbeat_at", UTCDateTime, nullable=False),
    Column("expires_at", UTCDateTime, nullable=False),
    sqlite_strict=True,
)

#: Tables that are made from the others and may be made again at any time.
DERIVED = (day_total, run_total)

#: Tables whose rows never change and never go; only a text goes, once a row of `text_expiry` covers its day (or, from a
#: row of its own, once a block holds it).
APPEND_ONLY = (
    panel,
    panel_item,
    series,
    arm,
    run_start,
    run_end,
    sample,
    reply_text,
    text_block,
    validity,
    verdict,
    alarm,
    early_warning,
    text_expiry,
    ledger,
    fingerprint,
    run_target,
    run_usage,
    epoch,
    deviation,
    event,
    sentinel_baseline,
    sentinel_day,
    study,
    study_sample,
    registration_document,
    regrade,
    regrade_difference,
    run_report,
    run_surroundings,
    run_duration,
    sentinel_usage,
    judged_item,
    judge_reading,
    judge_usage,
    acknowledgement,
    webhook_delivery,
)

#: The view (defined in the migrations) of the sample that counts for each (series, arm, slot date, item, replicate):
#: that of the latest attempt that ended in a grade or an outcome failure, else that of the latest attempt.
#: `invalid_reason` is null for a valid sample of a valid run; `measured` says whether its item enters the estimates.
effective_sample = table(
    "v_effective_sample",
    *(column(name, type_) for name, type_ in (("series", AnyText()), ("arm", AnyText()), ("slot_date", Day()))),
    column("attempt", Integer()),
    column("epoch", Integer()),
    column("fingerprint", AnyText()),
    column("family", AnyText()),
    column("cluster", AnyText()),
    column("sentinel", Flag()),
    column("invalid_reason", AnyText()),
    column("measured", Flag()),
    *(column(each.name, each.type) for each in sample.c),
)
