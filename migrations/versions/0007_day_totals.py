"""Totals of each closed day, derived from its samples."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

DAY = sa.Date().with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """Create the table; its rows are made from the samples afterwards."""
    op.create_table(
        "day_total",
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("slot_date", DAY, nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["series", "arm"], ["arm.series", "arm.arm"], name=op.f("fk_day_total_series_arm_arm")),
        sa.PrimaryKeyConstraint("series", "arm", "slot_date", "value", name=op.f("pk_day_total")),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop the table; nothing is lost that the samples do not hold."""
    op.drop_table("day_total")
