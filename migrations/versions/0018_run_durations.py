"""How long each run took by a clock that no step of the calendar moves."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

NAME = "run_duration"
REAL = sa.Double().with_variant(sa.REAL(), "sqlite")


def upgrade() -> None:
    """Create the table, whose rows are only ever added."""
    op.create_table(
        NAME,
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seconds", REAL, nullable=False),
        sa.CheckConstraint("seconds >= 0", name=op.f(f"ck_{NAME}_seconds")),
        sa.ForeignKeyConstraint(["run_id"], ["run_start.run_id"], name=op.f(f"fk_{NAME}_run_id_run_start")),
        sa.PrimaryKeyConstraint("run_id", name=op.f(f"pk_{NAME}")),
        sqlite_strict=True,
    )
    if op.get_bind().dialect.name == "sqlite":
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {NAME}_no_{change.lower()} BEFORE {change} ON {NAME} "
                f"BEGIN SELECT RAISE(ABORT, '{NAME} is append-only: add a row that supersedes instead'); END"
            )
        return
    op.execute(
        f"CREATE TRIGGER {NAME}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {NAME} "
        "FOR EACH STATEMENT EXECUTE FUNCTION canaryd_append_only()"
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table(NAME)
