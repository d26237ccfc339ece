"""The texts of a closed run in compressed blocks."""

import bz2
import json

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

HAS_EXPIRED = """
  SELECT 1 FROM run_start
  JOIN text_expiry ON text_expiry.series = run_start.series AND run_start.slot_date < text_expiry.before
  WHERE run_start.run_id = {run_id}
"""
RUN_OF_REPLY = "(SELECT sample.run_id FROM sample WHERE sample.sample_id = OLD.sample_id)"
IS_IN_BLOCK = """
  SELECT 1 FROM text_block JOIN sample ON sample.run_id = text_block.run_id WHERE sample.sample_id = OLD.sample_id
"""
#: Under which condition the text of a reply, and a block of them, may go.
MAY_GO = {
    "reply_text": f"EXISTS ({HAS_EXPIRED.format(run_id=RUN_OF_REPLY)}) OR EXISTS ({IS_IN_BLOCK})",
    "text_block": f"EXISTS ({HAS_EXPIRED.format(run_id='OLD.run_id')})",
}
MAY_GO_BEFORE = {"reply_text": f"EXISTS ({HAS_EXPIRED.format(run_id=RUN_OF_REPLY)})"}


def upgrade() -> None:
    """Create the table of blocks, and let a text go from its own row once a block holds it."""
    op.create_table(
        "text_block",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("texts", sa.Integer(), nullable=False),
        sa.Column("codec", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("codec IN ('framed+bz2')", name=op.f("ck_text_block_codec")),
        sa.CheckConstraint("texts >= 1", name=op.f("ck_text_block_texts")),
        sa.ForeignKeyConstraint(["run_id"], ["run_start.run_id"], name=op.f("fk_text_block_run_id_run_start")),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_text_block")),
        sqlite_strict=True,
    )
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER reply_text_no_delete")
        op.execute(
            "CREATE TRIGGER text_block_no_update BEFORE UPDATE ON text_block "
            "BEGIN SELECT RAISE(ABORT, 'text_block is append-only: let a text expire instead'); END"
        )
        for name in MAY_GO:
            op.execute(_sqlite_keep(name, MAY_GO))
    else:
        op.execute("DROP TRIGGER reply_text_expiry ON reply_text")
        op.execute("DROP FUNCTION canaryd_expired_only()")
        op.execute(
            "CREATE TRIGGER text_block_append_only BEFORE UPDATE OR TRUNCATE ON text_block "
            "FOR EACH STATEMENT EXECUTE FUNCTION canaryd_append_only()"
        )
        for name in MAY_GO:
            _postgres_keep(name, MAY_GO, function=f"canaryd_keep_{name}")


def downgrade() -> None:
    """Give each text its own row again."""
    reply = sa.table("reply_text", sa.column("sample_id"), sa.column("codec"), sa.column("body"))
    connection = op.get_bind()
    blocks = connection.execute(sa.text("SELECT run_id, content FROM text_block")).all()
    for run_id, content in blocks:
        ids = {
            (item_id, replicate): sample_id
            for sample_id, item_id, replicate in connection.execute(
                sa.text("SELECT sample_id, item_id, replicate FROM sample WHERE run_id = :run_id"), {"run_id": run_id}
            )
        }
        rows = [
            {"sample_id": ids[item_id, replicate], "codec": "utf8", "body": body}
            for item_id, replicate, body in _unframed(bz2.decompress(content))
        ]
        connection.execute(sa.insert(reply), rows)
    op.drop_table("text_block")
    if connection.dialect.name == "sqlite":
        op.execute("DROP TRIGGER reply_text_no_delete")
        op.execute(_sqlite_keep("reply_text", MAY_GO_BEFORE))
    else:
        op.execute("DROP TRIGGER reply_text_kept ON reply_text")
        for name in MAY_GO:
            op.execute(f"DROP FUNCTION canaryd_keep_{name}()")
        _postgres_keep("reply_text", MAY_GO_BEFORE, function="canaryd_expired_only", trigger="reply_text_expiry")


def _unframed(content: bytes) -> list[tuple[str, int, bytes]]:
    head, _, bodies = content.partition(b"\n")
    rows, at = [], 0
    for item_id, replicate, size in json.loads(head):
        rows.append((item_id, replicate, bodies[at : at + size]))
        at += size
    return rows


def _sqlite_keep(name: str, may_go: dict[str, str]) -> str:
    return (
        f"CREATE TRIGGER {name}_no_delete BEFORE DELETE ON {name} WHEN NOT ({may_go[name]}) "
        f"BEGIN SELECT RAISE(ABORT, '{name} is append-only: let a text expire first'); END"
    )


def _postgres_keep(name: str, may_go: dict[str, str], *, function: str, trigger: str | None = None) -> None:
    op.execute(
        f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NOT ({may_go[name]}) THEN "
        f"RAISE EXCEPTION '{name} is append-only: let a text expire first' "
        "USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN OLD; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {trigger or f'{name}_kept'} BEFORE DELETE ON {name} FOR EACH ROW EXECUTE FUNCTION {function}()"
    )
