"""Where every program of a model's is run, so that a process may count what becomes of them."""

from __future__ import annotations

import random
from contextvars import ContextVar
from typing import Protocol

from canaryd import sandbox
from canaryd.graders.base import Job, JobResult


class Execute(Protocol):
    """A way to run a program."""

    def __call__(self, job: Job, *, backend: sandbox.Backend, rng: random.Random) -> JobResult:
        """Return how the program ended; raise SandboxError where the sandbox did not work."""


#: How this context runs a program; the resident process' child counts here.
execute: ContextVar[Execute] = ContextVar("execute", default=sandbox.execute)
