"""The resident process stays small, since what only its children need is never loaded into it, and goes on ticking."""

import subprocess
import sys
import threading

import pytest

from canaryd.daemon.resident import ticking

HEAVY = ("numpy", "scipy", "statsmodels", "pandas", "matplotlib", "openai", "anthropic", "boto3", "alembic")


def test_the_resident_process_loads_no_sdk_and_no_statistics() -> None:
    program = f"import canaryd.daemon.resident, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_tick_that_crashes_does_not_end_the_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    ticks, second = [], threading.Event()

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 1:
            raise RuntimeError("unforeseen")
        second.set()

    scheduler = ticking(tick, every_s=0.01)
    scheduler.start()
    assert second.wait(30)
    scheduler.shutdown()
    assert "tick crashed: unforeseen" in caplog.text
