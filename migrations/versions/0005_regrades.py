"""Re-gradings of stored replies and where they differ."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TEXT = sa.Text()
INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
DAY = sa.Date().with_variant(sa.Text(), "sqlite")
REAL = sa.Double().with_variant(sa.REAL(), "sqlite")
FLAG = sa.Boolean().with_variant(sa.Integer(), "sqlite")

TABLES = ("regrade", "regrade_difference")
FAILURE_KINDS = (
    "'auth', 'bad_request', 'config_mismatch', 'connection', 'content_filtered', 'empty', 'grader_error', "
    "'harness_retried', 'internal', 'malformed', 'not_found', 'overloaded', 'quota', 'rate_limited', 'refusal', "
    "'replayed', 'sandbox_error', 'served_other', 'server_error', 'timeout', 'truncated'"
)


def upgrade() -> None:
    """Create the tables and their triggers."""
    _create_regrade()
    _create_regrade_difference()
    for name in TABLES:
        _refuse_changes(name)


def downgrade() -> None:
    """Drop the tables."""
    for name in reversed(TABLES):
        op.drop_table(name)


def _create_regrade() -> None:
    op.create_table(
        "regrade",
        sa.Column("regrade_id", sa.Integer(), nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("since", DAY, nullable=True),
        sa.Column("graders", TEXT, nullable=False),
        sa.Column("identical", sa.Integer(), nullable=False),
        sa.Column("differing", sa.Integer(), nullable=False),
        sa.Column("expired", sa.Integer(), nullable=False),
        sa.Column("ungraded", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "identical >= 0 AND differing >= 0 AND expired >= 0 AND ungraded >= 0", name=op.f("ck_regrade_counts")
        ),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_regrade_series_series")),
        sa.PrimaryKeyConstraint("regrade_id", name=op.f("pk_regrade")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_regrade_series"), "regrade", ["series"], unique=False)


def _create_regrade_difference() -> None:
    op.create_table(
        "regrade_difference",
        sa.Column("regrade_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("sample_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("score", REAL, nullable=True),
        sa.Column("answered", FLAG, nullable=True),
        sa.Column("passed", FLAG, nullable=True),
        sa.Column("grade_detail", TEXT, nullable=True),
        sa.Column("grader", TEXT, nullable=True),
        sa.Column("failure_kind", TEXT, nullable=True),
        sa.Column("failure_detail", TEXT, nullable=True),
        sa.CheckConstraint(
            "(score IS NULL) <> (failure_kind IS NULL)", name=op.f("ck_regrade_difference_grade_or_failure")
        ),
        sa.CheckConstraint("score >= 0 AND score <= 1", name=op.f("ck_regrade_difference_score")),
        sa.CheckConstraint(f"failure_kind IN ({FAILURE_KINDS})", name=op.f("ck_regrade_difference_failure_kind")),
        sa.CheckConstraint(
            "(score IS NULL) = (answered IS NULL) AND (score IS NULL) = (passed IS NULL) "
            "AND (score IS NULL) = (grader IS NULL) AND (score IS NULL) = (grade_detail IS NULL)",
            name=op.f("ck_regrade_difference_whole_grade"),
        ),
        sa.ForeignKeyConstraint(
            ["regrade_id"], ["regrade.regrade_id"], name=op.f("fk_regrade_difference_regrade_id_regrade")
        ),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_regrade_difference_sample_id_sample")
        ),
        sa.PrimaryKeyConstraint("regrade_id", "sample_id", name=op.f("pk_regrade_difference")),
        sqlite_strict=True,
    )


def _refuse_changes(name: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {name}_no_{change.lower()} BEFORE {change} ON {name} "
                f"BEGIN SELECT RAISE(ABORT, '{name} is append-only: add a row that supersedes instead'); END"
            )
        return
    op.execute(
        f"CREATE TRIGGER {name}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {name} "
        "FOR EACH STATEMENT EXECUTE FUNCTION canaryd_append_only()"
    )
