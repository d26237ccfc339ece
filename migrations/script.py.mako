"""${message}."""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Add what the revision brings."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Take it away again."""
    ${downgrades if downgrades else "pass"}
