"""How far the open runs of a series are, for the status line."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from canaryd.store import read, schema


def progress(connection: Connection, series: str) -> tuple[int, int]:
    """Return how many samples the open runs of a series have stored, and how many they have when they are complete."""
    open_runs = read.open_runs(connection, series)
    if not open_runs:
        return 0, 0
    items = read.panel_items(connection, open_runs[0].start.panel_digest)
    sample = schema.sample.c
    ids = [run.run_id for run in open_runs]
    stored = connection.scalar(select(func.count()).select_from(schema.sample).where(sample.run_id.in_(ids))) or 0
    return stored, len(open_runs) * sum(item.replicates for item in items)
