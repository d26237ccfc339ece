"""Alarm states that a person acknowledged until a time, and what became of each message of the webhook."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TEXT = sa.Text()
INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
NAMES = ("acknowledgement", "webhook_delivery")


def upgrade() -> None:
    """Create both tables, whose rows are only ever added."""
    op.create_table(
        "acknowledgement",
        sa.Column("acknowledgement_id", sa.Integer(), nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_acknowledgement_series_series")),
        sa.PrimaryKeyConstraint("acknowledgement_id", name=op.f("pk_acknowledgement")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_acknowledgement_series"), "acknowledgement", ["series"])
    op.create_table(
        "webhook_delivery",
        sa.Column("series", TEXT, nullable=False),
        sa.Column("notice", TEXT, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.CheckConstraint("outcome IN ('accepted', 'silenced')", name=op.f("ck_webhook_delivery_outcome")),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_webhook_delivery_series_series")),
        sa.PrimaryKeyConstraint("series", "notice", name=op.f("pk_webhook_delivery")),
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
