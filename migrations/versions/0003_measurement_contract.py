"""Harness components, recorded targets, epochs, deviations, events and sentinels."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TEXT = sa.Text()
INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
DAY = sa.Date().with_variant(sa.Text(), "sqlite")
REAL = sa.Double().with_variant(sa.REAL(), "sqlite")

TABLES = (
    "fingerprint",
    "run_target",
    "run_usage",
    "deviation",
    "epoch",
    "event",
    "sentinel_baseline",
    "sentinel_day",
)


def upgrade() -> None:
    """Create the tables and their triggers."""
    _create_harness()
    _create_deviations()
    _create_event()
    _create_sentinels()
    for name in TABLES:
        _refuse_changes(name)


def downgrade() -> None:
    """Drop the tables."""
    for name in reversed(TABLES):
        op.drop_table(name)


def _create_harness() -> None:
    op.create_table(
        "fingerprint",
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("components", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_fingerprint")),
        sqlite_strict=True,
    )
    op.create_table(
        "run_target",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("recorded", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run_start.run_id"], name=op.f("fk_run_target_run_id_run_start")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_target")),
        sqlite_strict=True,
    )
    op.create_table(
        "run_usage",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.CheckConstraint("calls >= 0 AND input_tokens >= 0 AND output_tokens >= 0", name=op.f("ck_run_usage_counts")),
        sa.ForeignKeyConstraint(["run_id"], ["run_start.run_id"], name=op.f("fk_run_usage_run_id_run_start")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_usage")),
        sqlite_strict=True,
    )


def _create_deviations() -> None:
    op.create_table(
        "deviation",
        sa.Column("deviation_id", sa.Integer(), nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("slot_date", DAY, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("detail", TEXT, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.CheckConstraint(
            "kind IN ('noted', 'accepted', 'equivalent', 'rebaseline', 'no_canary', 'ack')",
            name=op.f("ck_deviation_kind"),
        ),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_deviation_series_series")),
        sa.PrimaryKeyConstraint("deviation_id", name=op.f("pk_deviation")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_deviation_series"), "deviation", ["series"], unique=False)
    op.create_table(
        "epoch",
        sa.Column("series", TEXT, nullable=False),
        sa.Column("epoch", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_date", DAY, nullable=False),
        sa.Column("deviation_id", sa.Integer(), nullable=False),
        sa.CheckConstraint("epoch >= 2", name=op.f("ck_epoch_epoch")),
        sa.ForeignKeyConstraint(
            ["deviation_id"], ["deviation.deviation_id"], name=op.f("fk_epoch_deviation_id_deviation")
        ),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_epoch_series_series")),
        sa.PrimaryKeyConstraint("series", "epoch", name=op.f("pk_epoch")),
        sqlite_strict=True,
    )


def _create_event() -> None:
    op.create_table(
        "event",
        sa.Column("event_id", sa.Integer(), nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("arm", TEXT, nullable=False),
        sa.Column("slot_date", DAY, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("detail", TEXT, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.CheckConstraint(
            "kind IN ('model_roll', 'input_tokens', 'configuration', 'canary_answer')", name=op.f("ck_event_kind")
        ),
        sa.ForeignKeyConstraint(["series", "arm"], ["arm.series", "arm.arm"], name=op.f("fk_event_series_arm_arm")),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_event")),
        sa.UniqueConstraint("series", "slot_date", "arm", "kind", name=op.f("uq_event_series_slot_date_arm_kind")),
        sqlite_strict=True,
    )


def _create_sentinels() -> None:
    op.create_table(
        "sentinel_baseline",
        sa.Column("series", TEXT, nullable=False),
        sa.Column("item_id", TEXT, nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("total", REAL, nullable=False),
        sa.Column("total_sq", REAL, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.CheckConstraint(
            "total BETWEEN 0 AND n AND total_sq BETWEEN 0 AND n", name=op.f("ck_sentinel_baseline_sums")
        ),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_sentinel_baseline_series_series")),
        sa.PrimaryKeyConstraint("series", "item_id", name=op.f("pk_sentinel_baseline")),
        sqlite_strict=True,
    )
    op.create_table(
        "sentinel_day",
        sa.Column("series", TEXT, nullable=False),
        sa.Column("slot_date", DAY, nullable=False),
        sa.Column("item_id", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("baseline_n", sa.Integer(), nullable=False),
        sa.Column("baseline_mean", REAL, nullable=True),
        sa.Column("today_mean", REAL, nullable=True),
        sa.Column("low", REAL, nullable=True),
        sa.Column("high", REAL, nullable=True),
        sa.CheckConstraint("state IN ('warming_up', 'ok', 'moved', 'unjudged')", name=op.f("ck_sentinel_day_state")),
        sa.ForeignKeyConstraint(["series"], ["series.name"], name=op.f("fk_sentinel_day_series_series")),
        sa.PrimaryKeyConstraint("series", "slot_date", "item_id", name=op.f("pk_sentinel_day")),
        sqlite_strict=True,
    )


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
