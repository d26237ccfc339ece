"""The tables of re-gradings: what stored replies are worth to the graders of a later day, beside their own grades."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, ForeignKey, Integer, Table

from canaryd.records import FAILURE_KINDS
from canaryd.store.metadata import metadata
from canaryd.store.types import AnyText, CanonicalJson, Day, Flag, Real, UTCDateTime

regrade = Table(
    "regrade",
    metadata,
    Column("regrade_id", Integer, primary_key=True),
    Column("series", ForeignKey("series.name"), nullable=False, index=True),
    Column("at", UTCDateTime, nullable=False),
    Column("since", Day),
    Column("graders", CanonicalJson, nullable=False),
    Column("identical", Integer, nullable=False),
    Column("differing", Integer, nullable=False),
    Column("expired", Integer, nullable=False),
    Column("ungraded", Integer, nullable=False),
    CheckConstraint("identical >= 0 AND differing >= 0 AND expired >= 0 AND ungraded >= 0", name="counts"),
    sqlite_strict=True,
)

regrade_difference = Table(
    "regrade_difference",
    metadata,
    Column("regrade_id", ForeignKey("regrade.regrade_id"), primary_key=True, autoincrement=False),
    Column("sample_id", ForeignKey("sample.sample_id"), primary_key=True, autoincrement=False),
    Column("score", Real),
    Column("answered", Flag),
    Column("passed", Flag),
    Column("grade_detail", AnyText),
    Column("grader", AnyText),
    Column("failure_kind", AnyText),
    Column("failure_detail", AnyText),
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
    sqlite_strict=True,
)
