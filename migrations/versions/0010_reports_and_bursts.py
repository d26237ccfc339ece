"""What an application reports of its configuration in a run, and what a burst of sentinel samples used up."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TEXT = sa.Text()
DAY = sa.Date().with_variant(sa.Text(), "sqlite")
NAMES = ("run_report", "sentinel_usage")


def upgrade() -> None:
    """Create both tables, whose rows are only ever added."""
    op.create_table(
        "run_report",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first", TEXT, nullable=False),
        sa.Column("last", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run_start.run_id"], name=op.f("fk_run_report_run_id_run_start")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_report")),
        sqlite_strict=True,
    )
    op.create_table(
        "sentinel_usage",
        sa.Column("usage_id", sa.Integer(), nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("arm", TEXT, nullable=False),
        sa.Column("slot_date", DAY, nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "calls >= 0 AND input_tokens >= 0 AND output_tokens >= 0", name=op.f("ck_sentinel_usage_counts")
        ),
        sa.ForeignKeyConstraint(
            ["series", "arm"], ["arm.series", "arm.arm"], name=op.f("fk_sentinel_usage_series_arm_arm")
        ),
        sa.PrimaryKeyConstraint("usage_id", name=op.f("pk_sentinel_usage")),
        sqlite_strict=True,
    )
    for name in NAMES:
        _refuse_changes(name)


def downgrade() -> None:
    """Drop both tables."""
    for name in NAMES:
        op.drop_table(name)


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
