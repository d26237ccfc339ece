"""The ledger covers what people decided about a series."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

KINDS_BEFORE = ("series", "run", "validity", "verdict")
KINDS = (*KINDS_BEFORE, "deviation")


def upgrade() -> None:
    """Let an entry of the ledger be a deviation."""
    _allow(KINDS)


def downgrade() -> None:
    """Forbid it again, which the database refuses once there is such an entry: a chain cannot lose a link."""
    _allow(KINDS_BEFORE)


def _allow(kinds: tuple[str, ...]) -> None:
    condition = f"kind IN ({', '.join(repr(kind) for kind in kinds)})"
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint(op.f("ck_ledger_kind"), "ledger", type_="check")
        op.create_check_constraint(op.f("ck_ledger_kind"), "ledger", condition)
        return
    op.rename_table("ledger", "ledger_before")
    _create_ledger(condition)
    op.execute("INSERT INTO ledger SELECT * FROM ledger_before")
    op.drop_table("ledger_before")
    for change in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER ledger_no_{change.lower()} BEFORE {change} ON ledger "
            "BEGIN SELECT RAISE(ABORT, 'ledger is append-only: add a row that supersedes instead'); END"
        )


def _create_ledger(condition: str) -> None:
    op.create_table(
        "ledger",
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("row_id", sa.Integer(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("manifest", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(
            "(kind = 'series') = (position = 1) AND (kind = 'series') = (row_id IS NULL)",
            name=op.f("ck_ledger_genesis"),
        ),
        sa.CheckConstraint(condition, name=op.f("ck_ledger_kind")),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_ledger_series_series")),
        sa.PrimaryKeyConstraint("series", "position", name=op.f("pk_ledger")),
        sa.UniqueConstraint("kind", "row_id", name=op.f("uq_ledger_kind_row_id")),
        sqlite_strict=True,
    )
