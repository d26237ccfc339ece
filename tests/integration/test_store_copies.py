"""What the daemon's daily copy is on each database: something that gives every row back."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from canaryd.config import parse
from canaryd.daemon.copies import copies, make_copy
from canaryd.store.engine import Store, open_store, parse_url

CONFIG = """
[store]
url = "{url}"
[backup]
folder = "copies"
[[series]]
name = "s"
panel = "p.jsonl"
[[series.arm]]
name = "old"
role = "tracked"
provider = "simulated"
model = "m-1"
"""


def test_a_copy_gives_every_row_back(
    store: Store, store_url: str, study: Any, tmp_path: Path, installed: Callable[..., str], request: Any
) -> None:
    study.register(store)
    made_for = store_url.replace("postgresql+psycopg://", "postgresql://")
    config = parse(CONFIG.format(url=made_for), path=tmp_path / "config.toml")
    if not store_url.startswith("sqlite"):
        installed("pg_dump")
    made = make_copy(config)
    assert config.service.backup is not None
    assert copies(config.service.backup) == [made]
    if store_url.startswith("sqlite"):
        restored_url = f"sqlite:///{made}"
    else:
        restored_url = request.getfixturevalue("new_postgres_database")()
        target = parse_url(restored_url).set(drivername="postgresql").render_as_string(hide_password=False)
        command = [installed("pg_restore"), "--no-owner", f"--dbname={target}", str(made)]
        subprocess.run(command, check=True, capture_output=True)
    with open_store(restored_url) as restored, restored.read() as connection, store.read() as original:
        query = "SELECT name, seed, registration_digest FROM series"
        assert connection.exec_driver_sql(query).all() == original.exec_driver_sql(query).all() != []
