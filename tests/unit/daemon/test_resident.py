"""The resident process stays small: what only its children need is never loaded into it."""

import subprocess
import sys

HEAVY = ("numpy", "scipy", "statsmodels", "pandas", "matplotlib", "openai", "anthropic", "boto3", "alembic")


def test_the_resident_process_loads_no_sdk_and_no_statistics() -> None:
    program = f"import canaryd.daemon.resident, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
