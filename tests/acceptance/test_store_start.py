"""`canaryd status` starts fast: it imports nothing that measuring, simulating or drawing needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

#: asyncio is missing here, since SQLAlchemy itself imports it.
HEAVY = (
    "alembic", "anthropic", "apscheduler", "boto3", "httpx2", "inspect_ai", "matplotlib", "numpy", "openai", "pandas",
    "psycopg", "pyarrow", "scipy", "starlette", "statsmodels", "structlog", "uvicorn", "sqlalchemy.dialects.postgresql",
)  # fmt: skip
WITH_MODULES = """
import sys
sys.argv = ["canaryd", *sys.argv[1:]]
from canaryd.cli import invoke
code = invoke()
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""
CONFIG = """
[store]
url = "sqlite:///canaryd.db"
[[series]]
name = "main"
panel = "panel/mine.jsonl"
[[series.arm]]
name = "tracked"
role = "tracked"
provider = "simulated"
model = "large"
[[series.arm]]
name = "control"
role = "control"
provider = "simulated"
model = "small"
"""


@pytest.mark.parametrize("command", ["status", "check"])
def test_reading_imports_little(canaryd: Any, tmp_path: Path, command: str) -> None:
    assert canaryd("init", "project").code == 0
    folder = tmp_path / "project"
    (folder / "config.toml").write_text(CONFIG)
    families = "arith,modular,bases,calendar,fidelity"
    for arguments in (
        ("panel", "generate", "project/panel/mine.jsonl", "--seed", "s", "--size", "60", "--families", families),
        ("panel", "freeze", "project/panel/mine.jsonl"),
        ("--config", "project/config.toml", "db", "upgrade"),
        ("--config", "project/config.toml", "register", "--start", "today"),
    ):
        done = canaryd(*arguments)
        assert done.code == 0, done.err
    finished = subprocess.run(
        [sys.executable, "-c", WITH_MODULES, "--config", str(folder / "config.toml"), command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == {"status": 0, "check": 2}[command], finished.stderr
    loaded = set(finished.stderr.split())
    assert "canaryd.status" in loaded
    assert not loaded & set(HEAVY)
