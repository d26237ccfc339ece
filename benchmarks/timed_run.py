"""`canaryd run` in this folder, as the command line does it, with its processor time and peak memory on stderr."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import canaryd.providers.openai  # noqa: F401 - the SDK's import belongs to the process, not to the run
from canaryd import daily
from canaryd.cli import invoke

run_s: list[float] = []
_measure_slot = daily.measure_slot


def measure_slot(*arguments: object, **options: object) -> daily.DayResult:
    """Measure a slot and note the processor seconds it took."""
    began_s = time.process_time()
    result = _measure_slot(*arguments, **options)
    run_s.append(time.process_time() - began_s)
    return result


def peak_mib() -> float:
    """Return the peak resident memory of this process; that of getrusage would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    daily.measure_slot = measure_slot
    sys.argv = ["canaryd", "--config", "config.toml", "run"]
    code = invoke()
    print(json.dumps({"run_s": run_s[0], "peak_mib": peak_mib()}), file=sys.stderr)
    sys.exit(code)
