"""The backend that a provider names beside a reply."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

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
    """Add the column; the view takes the columns that the table had when it was made, so it is made again."""
    op.execute("DROP VIEW v_effective_sample")
    op.add_column("sample", sa.Column("system_fingerprint", sa.Text(), nullable=True))
    op.execute(EFFECTIVE_SAMPLE)


def downgrade() -> None:
    """Drop the column."""
    op.execute("DROP VIEW v_effective_sample")
    op.drop_column("sample", "system_fingerprint")
    op.execute(EFFECTIVE_SAMPLE)
