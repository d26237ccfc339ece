"""Day totals hold their sums as numbers; those of the older form are dropped and made again from the samples."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the totals of the older form."""
    op.execute("DELETE FROM day_total")


def downgrade() -> None:
    """Drop those of the newer form."""
    op.execute("DELETE FROM day_total")
