"""The tables of the studies beside a series: calibration and validation samples, and the document of a registration.

Samples of a study stand apart from those of the series, so that none of one can ever be read as one of the other. Their
texts are not kept, only digests: what a study decides is which items to ask, and that follows from the scores.
"""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, ForeignKey, Integer, LargeBinary, Table, UniqueConstraint

from canaryd.records import FAILURE_KINDS
from canaryd.store.metadata import metadata
from canaryd.store.types import AnyText, CanonicalJson, Day, Flag, Real, UTCDateTime

#: A study may come before its series is registered, so its series is a name and no reference.
study = Table(
    "study",
    metadata,
    Column("study_id", Integer, primary_key=True),
    Column("series", AnyText, nullable=False),
    Column("stage", AnyText, nullable=False),
    Column("arm", AnyText, nullable=False),
    Column("panel_digest", AnyText, nullable=False),
    Column("target_digest", AnyText, nullable=False),
    Column("target", CanonicalJson, nullable=False),
    Column("opened_at", UTCDateTime, nullable=False),
    UniqueConstraint("series", "stage", "arm", "panel_digest", "target_digest"),
    CheckConstraint("stage IN ('screen', 'confirm', 'validate')", name="stage"),
    sqlite_strict=True,
)

study_sample = Table(
    "study_sample",
    metadata,
    Column("study_sample_id", Integer, primary_key=True),
    Column("study_id", ForeignKey("study.study_id"), nullable=False),
    Column("series", AnyText, nullable=False, index=True),
    Column("slot_date", Day, nullable=False),
    Column("item_id", AnyText, nullable=False),
    Column("replicate", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("asked_at", UTCDateTime, nullable=False),
    Column("ended_at", UTCDateTime, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("score", Real),
    Column("passed", Flag),
    Column("grader", AnyText),
    Column("failure_kind", AnyText),
    Column("failure_detail", AnyText),
    Column("resolved_model", AnyText),
    Column("response_id", AnyText),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("text_digest", AnyText),
    UniqueConstraint("study_id", "item_id", "slot_date", "replicate", "attempt"),
    CheckConstraint("(score IS NULL) <> (failure_kind IS NULL)", name="grade_or_failure"),
    CheckConstraint("score >= 0 AND score <= 1", name="score"),
    CheckConstraint(
        "(score IS NULL) = (passed IS NULL) AND (score IS NULL) = (grader IS NULL)",
        name="whole_grade",
    ),
    CheckConstraint(
        f"failure_kind IN ({', '.join(repr(kind) for kind in sorted(FAILURE_KINDS))})", name="failure_kind"
    ),
    CheckConstraint("input_tokens >= 0 AND output_tokens >= 0", name="tokens"),
    CheckConstraint("attempt >= 1 AND calls >= 0", name="counts"),
    sqlite_strict=True,
)

registration_document = Table(
    "registration_document",
    metadata,
    Column("series", ForeignKey("series.name"), primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("digest", AnyText, nullable=False),
    Column("git_commit", AnyText),
    Column("at", UTCDateTime, nullable=False),
    sqlite_strict=True,
)
