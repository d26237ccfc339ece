"""Studies beside a series (calibration, validation) and the document of a registration."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TEXT = sa.Text()
INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
DAY = sa.Date().with_variant(sa.Text(), "sqlite")
REAL = sa.Double().with_variant(sa.REAL(), "sqlite")
FLAG = sa.Boolean().with_variant(sa.Integer(), "sqlite")

TABLES = ("study", "study_sample", "registration_document")
FAILURE_KINDS = (
    "'auth', 'bad_request', 'config_mismatch', 'connection', 'content_filtered', 'empty', 'grader_error', "
    "'harness_retried', 'internal', 'malformed', 'not_found', 'overloaded', 'quota', 'rate_limited', 'refusal', "
    "'replayed', 'sandbox_error', 'served_other', 'server_error', 'timeout', 'truncated'"
)


def upgrade() -> None:
    """Create the tables and their triggers."""
    _create_study()
    _create_study_sample()
    _create_registration_document()
    for name in TABLES:
        _refuse_changes(name)


def downgrade() -> None:
    """Drop the tables."""
    for name in reversed(TABLES):
        op.drop_table(name)


def _create_study() -> None:
    op.create_table(
        "study",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("stage", TEXT, nullable=False),
        sa.Column("arm", TEXT, nullable=False),
        sa.Column("panel_digest", TEXT, nullable=False),
        sa.Column("target_digest", TEXT, nullable=False),
        sa.Column("target", TEXT, nullable=False),
        sa.Column("opened_at", INSTANT, nullable=False),
        sa.CheckConstraint("stage IN ('screen', 'confirm', 'validate')", name=op.f("ck_study_stage")),
        sa.PrimaryKeyConstraint("study_id", name=op.f("pk_study")),
        sa.UniqueConstraint(
            "series",
            "stage",
            "arm",
            "panel_digest",
            "target_digest",
            name=op.f("uq_study_series_stage_arm_panel_digest_target_digest"),
        ),
        sqlite_strict=True,
    )


def _create_study_sample() -> None:
    op.create_table(
        "study_sample",
        sa.Column("study_sample_id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("slot_date", DAY, nullable=False),
        sa.Column("item_id", TEXT, nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("asked_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT, nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("score", REAL, nullable=True),
        sa.Column("passed", FLAG, nullable=True),
        sa.Column("grader", TEXT, nullable=True),
        sa.Column("failure_kind", TEXT, nullable=True),
        sa.Column("failure_detail", TEXT, nullable=True),
        sa.Column("resolved_model", TEXT, nullable=True),
        sa.Column("response_id", TEXT, nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("text_digest", TEXT, nullable=True),
        sa.CheckConstraint("(score IS NULL) <> (failure_kind IS NULL)", name=op.f("ck_study_sample_grade_or_failure")),
        sa.CheckConstraint("score >= 0 AND score <= 1", name=op.f("ck_study_sample_score")),
        sa.CheckConstraint(
            "(score IS NULL) = (passed IS NULL) AND (score IS NULL) = (grader IS NULL)",
            name=op.f("ck_study_sample_whole_grade"),
        ),
        sa.CheckConstraint(f"failure_kind IN ({FAILURE_KINDS})", name=op.f("ck_study_sample_failure_kind")),
        sa.CheckConstraint("input_tokens >= 0 AND output_tokens >= 0", name=op.f("ck_study_sample_tokens")),
        sa.CheckConstraint("attempt >= 1 AND calls >= 0", name=op.f("ck_study_sample_counts")),
        sa.ForeignKeyConstraint(["study_id"], ["study.study_id"], name=op.f("fk_study_sample_study_id_study")),
        sa.PrimaryKeyConstraint("study_sample_id", name=op.f("pk_study_sample")),
        sa.UniqueConstraint(
            "study_id",
            "item_id",
            "slot_date",
            "replicate",
            "attempt",
            name=op.f("uq_study_sample_study_id_item_id_slot_date_replicate_attempt"),
        ),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_study_sample_series"), "study_sample", ["series"], unique=False)


def _create_registration_document() -> None:
    op.create_table(
        "registration_document",
        sa.Column("series", TEXT, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("git_commit", TEXT, nullable=True),
        sa.Column("at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_registration_document_series_series")),
        sa.PrimaryKeyConstraint("series", name=op.f("pk_registration_document")),
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
