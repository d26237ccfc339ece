"""Samples on their way into the store: written by one thread, several that wait in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from canaryd.records import Sample


class Recorder:
    """Stores samples without stopping the event loop; `record` returns when its sample is durable."""

    def __init__(self, append: Callable[[Sequence[tuple[int, Sample]]], None]) -> None:
        self._append = append
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-writer")
        self._waiting: list[tuple[int, Sample, asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None

    async def record(self, run_id: int, sample: Sample) -> None:
        """Store one sample of a run.

        Raises:
            CanarydError: the store refused it (its lease moved on, the disk is full); nothing of the batch was stored.
        """
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((run_id, sample, stored))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush())
        await stored

    async def _flush(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            rows = [(run_id, sample) for run_id, sample, _ in batch]
            written = asyncio.get_running_loop().run_in_executor(self._writer, self._append, rows)
            await asyncio.wait([written])
            error = written.exception()
            for _, _, stored in batch:
                if stored.cancelled():
                    continue
                if error:
                    stored.set_exception(error)
                else:
                    stored.set_result(None)

    def close(self) -> None:
        """Wait for the writer thread to end."""
        self._writer.shutdown()
