"""Writes the dashboards: `python deploy/grafana/source/generate.py [FOLDER]`, by default deploy/grafana/dashboards."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import prometheus_boards
import sql_boards

BOARDS = {
    "prometheus": (prometheus_boards.overview(), prometheus_boards.operation()),
    "postgres": (sql_boards.series("postgres"), sql_boards.items("postgres")),
    "sqlite": (sql_boards.series("sqlite"), sql_boards.items("sqlite")),
}


def main() -> None:
    """Write each dashboard into the folder of its data source."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "dashboards"
    for source, boards in BOARDS.items():
        (out / source).mkdir(parents=True, exist_ok=True)
        for board in boards:
            (out / source / f"{board['uid']}.json").write_text(json.dumps(board, indent=1) + "\n")


if __name__ == "__main__":
    main()
