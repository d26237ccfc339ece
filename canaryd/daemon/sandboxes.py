"""Counting the programs that a child runs in the sandbox: how long each took, and why there was no result."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from canaryd import sandbox
from canaryd.graders.base import Job, JobResult
from canaryd.runner.programs import Execute


def counted_programs(report: Callable[[Mapping[str, Any]], None], run: Execute = sandbox.execute) -> Execute:
    """Return a way to run a program that reports each; an exception that it raises is a result like any other."""

    def execute(job: Job, *, backend: sandbox.Backend, rng: random.Random) -> JobResult:
        began_s, failure = time.monotonic(), "sandbox_error"
        try:
            result = run(job, backend=backend, rng=rng)
            failure = "" if result.outcome in ("returned", "exception") else result.outcome
        finally:
            took_s = round(time.monotonic() - began_s, 4)
            report({"event": "program", "failure": failure or None, "seconds": took_s})
        return result

    return execute
