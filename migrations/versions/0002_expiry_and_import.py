"""Texts may expire, a series may be imported."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
DAY = sa.Date().with_variant(sa.Text(), "sqlite")

HAS_EXPIRED = """
  SELECT 1 FROM sample
  JOIN run_start ON run_start.run_id = sample.run_id
  JOIN text_expiry ON text_expiry.series = run_start.series AND run_start.slot_date < text_expiry.before
  WHERE sample.sample_id = OLD.sample_id
"""


def upgrade() -> None:
    """Add the expiry of texts, and let go those that it covers; add the mark of an imported series."""
    op.add_column("series", sa.Column("imported_at", INSTANT, nullable=True))
    op.create_table(
        "text_expiry",
        sa.Column("expiry_id", sa.Integer(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("before", DAY, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_text_expiry_series_series")),
        sa.PrimaryKeyConstraint("expiry_id", name=op.f("pk_text_expiry")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_text_expiry_series"), "text_expiry", ["series"], unique=False)
    if op.get_bind().dialect.name == "sqlite":
        _sqlite_triggers()
    else:
        _postgres_triggers()


def downgrade() -> None:
    """Take it away again; texts that have gone stay gone."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER reply_text_no_delete")
        op.execute(_sqlite_refusal("reply_text", "DELETE"))
    else:
        op.execute("DROP TRIGGER reply_text_expiry ON reply_text")
        op.execute("DROP TRIGGER reply_text_append_only ON reply_text")
        op.execute(_postgres_refusal("reply_text", "UPDATE OR DELETE OR TRUNCATE"))
        op.execute("DROP FUNCTION canaryd_expired_only()")
    op.drop_table("text_expiry")
    op.drop_column("series", "imported_at")


def _sqlite_triggers() -> None:
    for change in ("UPDATE", "DELETE"):
        op.execute(_sqlite_refusal("text_expiry", change))
    op.execute("DROP TRIGGER reply_text_no_delete")
    op.execute(
        "CREATE TRIGGER reply_text_no_delete BEFORE DELETE ON reply_text "
        f"WHEN NOT EXISTS ({HAS_EXPIRED}) "
        "BEGIN SELECT RAISE(ABORT, 'reply_text is append-only: let a text expire first'); END"
    )


def _postgres_triggers() -> None:
    op.execute(_postgres_refusal("text_expiry", "UPDATE OR DELETE OR TRUNCATE"))
    op.execute("DROP TRIGGER reply_text_append_only ON reply_text")
    op.execute(_postgres_refusal("reply_text", "UPDATE OR TRUNCATE"))
    op.execute(
        "CREATE FUNCTION canaryd_expired_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF NOT EXISTS ({HAS_EXPIRED}) THEN "
        "RAISE EXCEPTION 'reply_text is append-only: let a text expire first' "
        "USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN OLD; END $$"
    )
    op.execute(
        "CREATE TRIGGER reply_text_expiry BEFORE DELETE ON reply_text "
        "FOR EACH ROW EXECUTE FUNCTION canaryd_expired_only()"
    )


def _sqlite_refusal(name: str, change: str) -> str:
    return (
        f"CREATE TRIGGER {name}_no_{change.lower()} BEFORE {change} ON {name} "
        f"BEGIN SELECT RAISE(ABORT, '{name} is append-only: add a row that supersedes instead'); END"
    )


def _postgres_refusal(name: str, changes: str) -> str:
    return (
        f"CREATE TRIGGER {name}_append_only BEFORE {changes} ON {name} "
        "FOR EACH STATEMENT EXECUTE FUNCTION canaryd_append_only()"
    )
