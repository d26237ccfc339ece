"""Grading a reply: in this process, and for items of code with the program run in the sandbox in between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from canaryd import graders, sandbox
from canaryd.graders.base import Outside
from canaryd.records import Ask, Failure, Grade, Item

_PROGRAMS_AT_ONCE = 2


def needs_sandbox(items: Iterable[Item]) -> bool:
    """Whether grading an item means running a program that a model wrote."""
    return any(isinstance(graders.GRADERS[item.grader.type].judge, Outside) for item in items)


@dataclass(slots=True)
class Grading:
    """Grades replies to the items of a panel; what cannot be graded becomes a failure, never a score."""

    items: Mapping[str, Item]
    backend: sandbox.Backend
    rng: random.Random
    _free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_PROGRAMS_AT_ONCE))

    async def grade(self, ask: Ask, text: str) -> Grade | Failure:
        """Return the grade of a reply's text, or `grader_error` or `sandbox_error`."""
        item = self.items[ask.item_id]
        try:
            job = graders.job(item, text)
            if job is None:
                return graders.grade(item, text)
            async with self._free:
                ran = await asyncio.to_thread(sandbox.execute, job, backend=self.backend, rng=self.rng)
            return graders.grade(item, ran)
        except graders.GraderError as error:
            return Failure("grader_error", str(error))
        except sandbox.SandboxError as error:
            return Failure("sandbox_error", str(error))
