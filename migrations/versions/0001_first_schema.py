"""The first schema: plan, measurements, decisions and the lease."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

TEXT = sa.Text()
INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
DAY = sa.Date().with_variant(sa.Text(), "sqlite")
FLAG = sa.Boolean().with_variant(sa.Integer(), "sqlite")
REAL = sa.Double().with_variant(sa.REAL(), "sqlite")
WIDE_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

FAILURE_KIND_IS_KNOWN = (
    "failure_kind IN ('auth', 'bad_request', 'config_mismatch', 'connection', 'content_filtered', 'empty', "
    "'grader_error', 'harness_retried', 'internal', 'malformed', 'not_found', 'overloaded', 'quota', 'rate_limited', "
    "'refusal', 'replayed', 'sandbox_error', 'served_other', 'server_error', 'timeout', 'truncated')"
)

EFFECTIVE_SAMPLE = """
CREATE VIEW v_effective_sample AS
SELECT ranked.*, panel_item.family, panel_item.cluster, panel_item.sentinel,
  COALESCE(run_note.reason, sample_note.reason) AS invalid_reason
FROM (
  SELECT run_start.series, run_start.arm, run_start.slot_date, run_start.attempt, run_start.epoch,
    run_start.fingerprint, run_start.panel_digest, sample.*,
    row_number() OVER (
      PARTITION BY run_start.series, run_start.arm, run_start.slot_date, sample.item_id, sample.replicate
      ORDER BY CASE WHEN sample.score IS NOT NULL OR sample.failure_kind IN
        ('refusal', 'content_filtered', 'truncated', 'empty', 'malformed') THEN 0 ELSE 1 END,
        run_start.attempt DESC
    ) AS place
  FROM run_start JOIN sample ON sample.run_id = run_start.run_id
) AS ranked
JOIN panel_item ON panel_item.panel_digest = ranked.panel_digest AND panel_item.item_id = ranked.item_id
LEFT JOIN (SELECT run_id, min(reason) AS reason FROM validity WHERE run_id IS NOT NULL GROUP BY run_id)
  AS run_note ON run_note.run_id = ranked.run_id
LEFT JOIN (SELECT sample_id, min(reason) AS reason FROM validity WHERE sample_id IS NOT NULL GROUP BY sample_id)
  AS sample_note ON sample_note.sample_id = ranked.sample_id
WHERE ranked.place = 1
"""


def upgrade() -> None:
    """Create tables, triggers and views."""
    for name, create in TABLES.items():
        create()
        if name != "lease":
            _refuse_changes(name)
    op.execute(EFFECTIVE_SAMPLE)


def downgrade() -> None:
    """Drop everything."""
    op.execute("DROP VIEW v_effective_sample")
    for name in reversed(TABLES):
        op.drop_table(name)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION canaryd_append_only()")


def _create_panel() -> None:
    op.create_table(
        "panel",
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("version", TEXT, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("system", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_panel")),
        sqlite_strict=True,
    )


def _create_panel_item() -> None:
    op.create_table(
        "panel_item",
        sa.Column("panel_digest", TEXT, nullable=False),
        sa.Column("item_id", TEXT, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("family", TEXT, nullable=True),
        sa.Column("cluster", TEXT, nullable=False),
        sa.Column("sentinel", FLAG, nullable=False),
        sa.Column("replicates", sa.Integer(), nullable=False),
        sa.Column("target_label", TEXT, nullable=True),
        sa.CheckConstraint("replicates >= 1", name=op.f("ck_panel_item_replicates")),
        sa.ForeignKeyConstraint(["panel_digest"], ["panel.digest"], name=op.f("fk_panel_item_panel_digest_panel")),
        sa.PrimaryKeyConstraint("panel_digest", "item_id", name=op.f("pk_panel_item")),
        sqlite_strict=True,
    )


def _create_series() -> None:
    op.create_table(
        "series",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("registered_at", INSTANT, nullable=False),
        sa.Column("start_date", DAY, nullable=False),
        sa.Column("seed", WIDE_INTEGER, nullable=False),
        sa.Column("panel_digest", TEXT, nullable=False),
        sa.Column("registration_digest", TEXT, nullable=False),
        sa.Column("registration", sa.LargeBinary(), nullable=False),
        sa.Column("simulation", TEXT, nullable=True),
        sa.ForeignKeyConstraint(["panel_digest"], ["panel.digest"], name=op.f("fk_series_panel_digest_panel")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_series")),
        sqlite_strict=True,
    )


def _create_arm() -> None:
    op.create_table(
        "arm",
        sa.Column("series", TEXT, nullable=False),
        sa.Column("arm", TEXT, nullable=False),
        sa.Column("role", TEXT, nullable=False),
        sa.Column("provider", TEXT, nullable=False),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("config", TEXT, nullable=False),
        sa.CheckConstraint("role IN ('tracked', 'control', 'replica')", name=op.f("ck_arm_role")),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_arm_series_series")),
        sa.PrimaryKeyConstraint("series", "arm", name=op.f("pk_arm")),
        sqlite_strict=True,
    )
    op.create_index(
        "uq_arm_one_tracked",
        "arm",
        ["series"],
        unique=True,
        sqlite_where=sa.text("role = 'tracked'"),
        postgresql_where=sa.text("role = 'tracked'"),
    )


def _create_run_start() -> None:
    op.create_table(
        "run_start",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("arm", TEXT, nullable=False),
        sa.Column("slot_date", DAY, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("due_at", INSTANT, nullable=False),
        sa.Column("panel_digest", TEXT, nullable=False),
        sa.Column("registration_digest", TEXT, nullable=False),
        sa.Column("fingerprint", TEXT),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("term", sa.Integer(), nullable=False),
        sa.CheckConstraint("attempt >= 1", name=op.f("ck_run_start_attempt")),
        sa.ForeignKeyConstraint(["series", "arm"], ["arm.series", "arm.arm"], name=op.f("fk_run_start_series_arm_arm")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_start")),
        sa.UniqueConstraint(
            "series", "slot_date", "arm", "attempt", name=op.f("uq_run_start_series_slot_date_arm_attempt")
        ),
        sqlite_strict=True,
    )


def _create_run_end() -> None:
    op.create_table(
        "run_end",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ended_at", INSTANT, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.CheckConstraint(
            "outcome IN ('completed', 'incomplete', 'config_error', 'refused', 'missed', 'abandoned')",
            name=op.f("ck_run_end_outcome"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run_start.run_id"], name=op.f("fk_run_end_run_id_run_start")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_end")),
        sqlite_strict=True,
    )


def _create_sample() -> None:
    op.create_table(
        "sample",
        sa.Column("sample_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("item_id", TEXT, nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("asked_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT, nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("score", REAL, nullable=True),
        sa.Column("answered", FLAG, nullable=True),
        sa.Column("passed", FLAG, nullable=True),
        sa.Column("grade_detail", TEXT, nullable=True),
        sa.Column("grader", TEXT, nullable=True),
        sa.Column("failure_kind", TEXT, nullable=True),
        sa.Column("failure_detail", TEXT, nullable=True),
        sa.Column("stop", TEXT, nullable=True),
        sa.Column("resolved_model", TEXT, nullable=True),
        sa.Column("standing", TEXT, nullable=True),
        sa.Column("response_id", TEXT, nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("reasoning_tokens", sa.Integer(), nullable=True),
        sa.Column("text_digest", TEXT, nullable=True),
        sa.CheckConstraint(FAILURE_KIND_IS_KNOWN, name=op.f("ck_sample_failure_kind")),
        sa.CheckConstraint("(score IS NULL) <> (failure_kind IS NULL)", name=op.f("ck_sample_grade_or_failure")),
        sa.CheckConstraint(
            "(score IS NULL) = (answered IS NULL) AND (score IS NULL) = (passed IS NULL) "
            "AND (score IS NULL) = (grader IS NULL) AND (score IS NULL) = (grade_detail IS NULL)",
            name=op.f("ck_sample_whole_grade"),
        ),
        sa.CheckConstraint(
            "(stop IS NULL) = (text_digest IS NULL) AND (stop IS NULL) = (standing IS NULL)",
            name=op.f("ck_sample_whole_reply"),
        ),
        sa.CheckConstraint(
            "input_tokens >= 0 AND output_tokens >= 0 AND reasoning_tokens >= 0", name=op.f("ck_sample_tokens")
        ),
        sa.CheckConstraint("score >= 0 AND score <= 1", name=op.f("ck_sample_score")),
        sa.ForeignKeyConstraint(["run_id"], ["run_start.run_id"], name=op.f("fk_sample_run_id_run_start")),
        sa.PrimaryKeyConstraint("sample_id", name=op.f("pk_sample")),
        sa.UniqueConstraint("run_id", "item_id", "replicate", name=op.f("uq_sample_run_id_item_id_replicate")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_sample_response_id"), "sample", ["response_id"], unique=False)


def _create_reply_text() -> None:
    op.create_table(
        "reply_text",
        sa.Column("sample_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("codec", TEXT, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("codec IN ('utf8', 'utf8+zlib')", name=op.f("ck_reply_text_codec")),
        sa.ForeignKeyConstraint(["sample_id"], ["sample.sample_id"], name=op.f("fk_reply_text_sample_id_sample")),
        sa.PrimaryKeyConstraint("sample_id", name=op.f("pk_reply_text")),
        sqlite_strict=True,
    )


def _create_validity() -> None:
    op.create_table(
        "validity",
        sa.Column("validity_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.Column("sample_id", sa.Integer(), nullable=True),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("detail", TEXT, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.CheckConstraint("(run_id IS NULL) <> (sample_id IS NULL)", name=op.f("ck_validity_run_or_sample")),
        sa.ForeignKeyConstraint(["run_id"], ["run_start.run_id"], name=op.f("fk_validity_run_id_run_start")),
        sa.ForeignKeyConstraint(["sample_id"], ["sample.sample_id"], name=op.f("fk_validity_sample_id_sample")),
        sa.PrimaryKeyConstraint("validity_id", name=op.f("pk_validity")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_validity_run_id"), "validity", ["run_id"], unique=False)
    op.create_index(op.f("ix_validity_sample_id"), "validity", ["sample_id"], unique=False)


def _create_verdict() -> None:
    op.create_table(
        "verdict",
        sa.Column("verdict_id", sa.Integer(), nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("window_index", sa.Integer(), nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("direction", TEXT, nullable=True),
        sa.Column("attribution", TEXT, nullable=True),
        sa.Column("reasons", TEXT, nullable=False),
        sa.Column("decided_at", INSTANT, nullable=False),
        sa.Column("panel_digest", TEXT, nullable=False),
        sa.Column("registration_digest", TEXT, nullable=False),
        sa.Column("clauses", TEXT, nullable=False),
        sa.Column("supersedes", sa.Integer(), nullable=True),
        sa.CheckConstraint("(kind = 'change') = (direction IS NOT NULL)", name=op.f("ck_verdict_direction")),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_verdict_series_series")),
        sa.ForeignKeyConstraint(["supersedes"], ["verdict.verdict_id"], name=op.f("fk_verdict_supersedes_verdict")),
        sa.PrimaryKeyConstraint("verdict_id", name=op.f("pk_verdict")),
        sa.UniqueConstraint("supersedes", name=op.f("uq_verdict_supersedes")),
        sqlite_strict=True,
    )
    op.create_index(
        "uq_verdict_first",
        "verdict",
        ["series", "epoch", "window_index"],
        unique=True,
        sqlite_where=sa.text("supersedes IS NULL"),
        postgresql_where=sa.text("supersedes IS NULL"),
    )


def _create_alarm() -> None:
    op.create_table(
        "alarm",
        sa.Column("alarm_id", sa.Integer(), nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("verdict_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_alarm_series_series")),
        sa.ForeignKeyConstraint(["verdict_id"], ["verdict.verdict_id"], name=op.f("fk_alarm_verdict_id_verdict")),
        sa.PrimaryKeyConstraint("alarm_id", name=op.f("pk_alarm")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_alarm_series"), "alarm", ["series"], unique=False)


def _create_early_warning() -> None:
    op.create_table(
        "early_warning",
        sa.Column("series", TEXT, nullable=False),
        sa.Column("stream", TEXT, nullable=False),
        sa.Column("segment", sa.Integer(), nullable=False),
        sa.Column("slot_date", DAY, nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("capital", REAL, nullable=False),
        sa.Column("threshold", REAL, nullable=False),
        sa.Column("alarm", FLAG, nullable=False),
        sa.Column("onset", DAY, nullable=True),
        sa.CheckConstraint("capital BETWEEN 0 AND 1.7976931348623157e308", name=op.f("ck_early_warning_capital")),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_early_warning_series_series")),
        sa.PrimaryKeyConstraint("series", "stream", "segment", "slot_date", name=op.f("pk_early_warning")),
        sqlite_strict=True,
    )


def _create_ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("series", TEXT, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("row_id", sa.Integer(), nullable=True),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("manifest", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(
            "(kind = 'series') = (position = 1) AND (kind = 'series') = (row_id IS NULL)",
            name=op.f("ck_ledger_genesis"),
        ),
        sa.CheckConstraint("kind IN ('series', 'run', 'validity', 'verdict')", name=op.f("ck_ledger_kind")),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_ledger_series_series")),
        sa.PrimaryKeyConstraint("series", "position", name=op.f("pk_ledger")),
        sa.UniqueConstraint("kind", "row_id", name=op.f("uq_ledger_kind_row_id")),
        sqlite_strict=True,
    )


def _create_lease() -> None:
    op.create_table(
        "lease",
        sa.Column("series", TEXT, nullable=False),
        sa.Column("term", sa.Integer(), nullable=False),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("machine", TEXT, nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process_start", WIDE_INTEGER, nullable=False),
        sa.Column("heartbeat_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_lease_series_series")),
        sa.PrimaryKeyConstraint("series", name=op.f("pk_lease")),
        sqlite_strict=True,
    )


def _refuse_changes(name: str) -> None:
    sentence = f"{name} is append-only: add a row that supersedes instead"
    if op.get_bind().dialect.name == "sqlite":
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {name}_no_{change.lower()} BEFORE {change} ON {name} "
                f"BEGIN SELECT RAISE(ABORT, '{sentence}'); END"
            )
        return
    op.execute(
        "CREATE OR REPLACE FUNCTION canaryd_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION '% is append-only: add a row that supersedes instead', TG_TABLE_NAME "
        "USING ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {name} "
        "FOR EACH STATEMENT EXECUTE FUNCTION canaryd_append_only()"
    )


TABLES = {
    "panel": _create_panel,
    "panel_item": _create_panel_item,
    "series": _create_series,
    "arm": _create_arm,
    "run_start": _create_run_start,
    "run_end": _create_run_end,
    "sample": _create_sample,
    "reply_text": _create_reply_text,
    "validity": _create_validity,
    "verdict": _create_verdict,
    "alarm": _create_alarm,
    "early_warning": _create_early_warning,
    "ledger": _create_ledger,
    "lease": _create_lease,
}
