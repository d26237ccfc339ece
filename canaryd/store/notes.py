"""Named queries on the notes that take runs and samples out of the analysis."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select

from canaryd.store import schema


def invalid_runs(connection: Connection, run_ids: Collection[int]) -> dict[int, str]:
    """Return the reason of each of the given runs that is marked invalid."""
    row = schema.validity.c
    query = select(row.run_id, row.reason).where(row.run_id.in_(sorted(run_ids))).order_by(row.validity_id.desc())
    return {each.run_id: each.reason for each in connection.execute(query)}
