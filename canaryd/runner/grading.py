"""Grading a reply: in this process, or with outside work in between, a program in the sandbox or a judge's opinion."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from canaryd import graders, sandbox
from canaryd.graders.base import Outside
from canaryd.records import Ask, Failure, Grade, Item
from canaryd.runner import programs
from canaryd.runner.judge import JudgeBench

_PROGRAMS_AT_ONCE = 2


def needs_sandbox(items: Iterable[Item]) -> bool:
    """Whether grading an item means running a program that a model wrote."""
    return any(isinstance(graders.GRADERS[item.grader.type].judge, Outside) and not item.is_judged for item in items)


@dataclass(slots=True)
class Grading:
    """Grades replies to the items of a panel; what cannot be graded becomes a failure, never a score."""

    items: Mapping[str, Item]
    backend: sandbox.Backend
    rng: random.Random
    judge: JudgeBench | None = None
    _free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_PROGRAMS_AT_ONCE))

    async def grade(self, ask: Ask, text: str) -> Grade | Failure:
        """Return the grade of a reply's text, or `grader_error` or `sandbox_error`."""
        item = self.items[ask.item_id]
        try:
            job = graders.job(item, text)
            if job is None:
                return graders.grade(item, text)
            result = await self._opinion(job, ask) if isinstance(job, graders.Question) else await self._ran(job)
            return result if isinstance(result, Failure) else graders.grade(item, result)
        except graders.GraderError as error:
            return Failure("grader_error", str(error))
        except sandbox.SandboxError as error:
            return Failure("sandbox_error", str(error))

    async def _ran(self, job: graders.Job) -> graders.JobResult:
        async with self._free:
            return await asyncio.to_thread(programs.execute.get(), job, backend=self.backend, rng=self.rng)

    async def _opinion(self, question: graders.Question, ask: Ask) -> graders.Opinion | Failure:
        if self.judge is None:
            return Failure("grader_error", "there is no judge here to ask")
        return await self.judge.opinion(question, ask)
