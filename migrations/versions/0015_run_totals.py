"""Totals of each closed run over all of its samples, derived from them."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; its rows are made from the samples afterwards."""
    op.create_table(
        "run_total",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("reasoning_tokens", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run_start.run_id"], name=op.f("fk_run_total_run_id_run_start")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_total")),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop the table; nothing is lost that the samples do not hold."""
    op.drop_table("run_total")
