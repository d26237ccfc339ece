"""Items that a judge grades: which they are, how the judge judged its anchors, and what it used up.

The view of the samples that count says of each whether it enters the estimates, and v_arm_day leaves out all that do
not. What reads the view keeps its columns, so it need not be made again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

TEXT = sa.Text()
FLAG = sa.Boolean().with_variant(sa.Integer(), "sqlite")
NAMES = ("judged_item", "judge_reading", "judge_usage")

EFFECTIVE_SAMPLE = """
SELECT ranked.*, panel_item.family, panel_item.cluster, panel_item.sentinel,
  COALESCE(run_note.reason, sample_note.reason) AS invalid_reason{measured}
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
{judged}WHERE ranked.place = 1
"""
MEASURED = ",\n  (NOT panel_item.sentinel AND COALESCE(judged_item.measured, {yes})) AS measured"
JUDGED = "LEFT JOIN judged_item ON judged_item.series = ranked.series AND judged_item.item_id = ranked.item_id\n"
ARM_DAY = """
SELECT each.series, each.arm, arm.role, each.epoch, {day} AS slot_date, {time} AS time,
  AVG(each.score) FILTER (WHERE each.invalid_reason IS NULL) AS score,
  COUNT(DISTINCT each.item_id) FILTER (WHERE each.invalid_reason IS NULL AND each.score IS NOT NULL) AS items,
  COUNT(*) AS samples,
  COUNT(each.score) FILTER (WHERE each.invalid_reason IS NULL) AS graded,
  COUNT(each.failure_kind) AS failed,
  COUNT(each.invalid_reason) AS invalid,
  AVG(CAST(each.input_tokens AS DOUBLE PRECISION)) FILTER (WHERE each.invalid_reason IS NULL) AS input_tokens,
  AVG(CAST(each.output_tokens AS DOUBLE PRECISION)) FILTER (WHERE each.invalid_reason IS NULL) AS output_tokens,
  AVG(CAST(each.reasoning_tokens AS DOUBLE PRECISION)) FILTER (WHERE each.invalid_reason IS NULL) AS reasoning_tokens
FROM v_effective_sample AS each JOIN arm ON arm.series = each.series AND arm.arm = each.arm
WHERE {chosen}
GROUP BY each.series, each.arm, arm.role, each.epoch, each.slot_date
"""


def upgrade() -> None:
    """Create the tables, whose rows are only ever added, and let the views know them."""
    op.create_table(
        "judged_item",
        sa.Column("series", TEXT, nullable=False),
        sa.Column("item_id", TEXT, nullable=False),
        sa.Column("measured", FLAG, nullable=False),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_judged_item_series_series")),
        sa.PrimaryKeyConstraint("series", "item_id", name=op.f("pk_judged_item")),
        sqlite_strict=True,
    )
    op.create_table(
        "judge_reading",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("identity", TEXT, nullable=False),
        sa.Column("resolved", TEXT, nullable=False),
        sa.Column("said", TEXT, nullable=False),
        sa.Column("people", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run_start.run_id"], name=op.f("fk_judge_reading_run_id_run_start")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_judge_reading")),
        sqlite_strict=True,
    )
    op.create_table(
        "judge_usage",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "calls >= 0 AND input_tokens >= 0 AND output_tokens >= 0", name=op.f("ck_judge_usage_counts")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run_start.run_id"], name=op.f("fk_judge_usage_run_id_run_start")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_judge_usage")),
        sqlite_strict=True,
    )
    for name in NAMES:
        _refuse_changes(name)
    yes = "TRUE" if _is_postgres() else "1"
    _view("v_effective_sample", EFFECTIVE_SAMPLE.format(measured=MEASURED.format(yes=yes), judged=JUDGED))
    _view("v_arm_day", _arm_day("each.measured"))


def downgrade() -> None:
    """Let the views forget the tables, and drop those; PostgreSQL takes no column away from a view that is read."""
    _view("v_arm_day", _arm_day("NOT each.sentinel"))
    if _is_postgres():
        views = op.get_bind().execute(sa.text(_READERS)).all()
        for name, _ in reversed(views):
            op.execute(f"DROP VIEW {name}")
    _view("v_effective_sample", EFFECTIVE_SAMPLE.format(measured="", judged=""), is_dropped=_is_postgres())
    if _is_postgres():
        for name, body in views[1:]:
            op.execute(f"CREATE VIEW {name} AS {body}")
    for name in reversed(NAMES):
        op.drop_table(name)


#: v_effective_sample first, then every view that reads it: none of those is read by another.
_READERS = """
SELECT viewname, definition FROM pg_views
WHERE schemaname = current_schema() AND (viewname = 'v_effective_sample' OR definition LIKE '%v_effective_sample%')
ORDER BY viewname <> 'v_effective_sample', viewname
"""


def _view(name: str, body: str, *, is_dropped: bool = False) -> None:
    """Make a view again under the views that read it."""
    if not _is_postgres():
        op.execute(f"DROP VIEW {name}")
    op.execute(f"CREATE {'OR REPLACE ' if _is_postgres() and not is_dropped else ''}VIEW {name} AS {body}")


def _arm_day(chosen: str) -> str:
    if _is_postgres():
        time = "CAST(EXTRACT(EPOCH FROM each.slot_date) AS BIGINT)"
        return ARM_DAY.format(day="to_char(each.slot_date, 'YYYY-MM-DD')", time=time, chosen=chosen)
    return ARM_DAY.format(day="each.slot_date", time="CAST(strftime('%s', each.slot_date) AS INTEGER)", chosen=chosen)


def _is_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _refuse_changes(name: str) -> None:
    if not _is_postgres():
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
