"""The ledger covers every row that a verdict or a report rests upon."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

KINDS_BEFORE = ("series", "run", "validity", "verdict", "deviation")
KINDS = (*KINDS_BEFORE, "rows")
NUMBERLESS_BEFORE = "(kind = 'series') = (position = 1) AND (kind = 'series') = (row_id IS NULL)"
NUMBERLESS = "(kind = 'series') = (position = 1) AND (kind IN ('series', 'rows')) = (row_id IS NULL)"


def upgrade() -> None:
    """Let an entry of the ledger cover rows by their names."""
    _allow(KINDS, NUMBERLESS)


def downgrade() -> None:
    """Forbid it again: such entries at the end of a chain go, and the database refuses where one has a successor."""
    op.execute(
        "DROP TRIGGER IF EXISTS ledger_no_delete"
        if op.get_bind().dialect.name == "sqlite"
        else "ALTER TABLE ledger DISABLE TRIGGER ledger_append_only"
    )
    op.execute(
        "DELETE FROM ledger WHERE kind = 'rows' AND NOT EXISTS (SELECT 1 FROM ledger AS later "
        "WHERE later.series = ledger.series AND later.position > ledger.position AND later.kind <> 'rows')"
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE ledger ENABLE TRIGGER ledger_append_only")
    _allow(KINDS_BEFORE, NUMBERLESS_BEFORE)


def _allow(kinds: tuple[str, ...], numberless: str) -> None:
    known = f"kind IN ({', '.join(repr(kind) for kind in kinds)})"
    if op.get_bind().dialect.name == "postgresql":
        for name, condition in (("kind", known), ("genesis", numberless)):
            op.drop_constraint(op.f(f"ck_ledger_{name}"), "ledger", type_="check")
            op.create_check_constraint(op.f(f"ck_ledger_{name}"), "ledger", condition)
        return
    op.rename_table("ledger", "ledger_before")
    _create_ledger(known, numberless)
    op.execute("INSERT INTO ledger SELECT * FROM ledger_before")
    op.drop_table("ledger_before")
    for change in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER ledger_no_{change.lower()} BEFORE {change} ON ledger "
            "BEGIN SELECT RAISE(ABORT, 'ledger is append-only: add a row that supersedes instead'); END"
        )


def _create_ledger(known: str, numberless: str) -> None:
    op.create_table(
        "ledger",
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("row_id", sa.Integer(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("manifest", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(numberless, name=op.f("ck_ledger_genesis")),
        sa.CheckConstraint(known, name=op.f("ck_ledger_kind")),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_ledger_series_series")),
        sa.PrimaryKeyConstraint("series", "position", name=op.f("pk_ledger")),
        sa.UniqueConstraint("kind", "row_id", name=op.f("uq_ledger_kind_row_id")),
        sqlite_strict=True,
    )
