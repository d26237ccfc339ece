"""A measurement day: its makespan against the bare SDK, its processor time and memory against inspect_ai."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import openai

from benchmarks.figures import Figure, at_most, not_measured
from benchmarks.loopback import serving
from benchmarks.project import CONCURRENCY, KEY, MODEL, Project, write_panel, write_project
from canaryd import daily
from canaryd.panel import Panel

#: Kept between runs: inspect_ai and what it needs take 325 MB.
PEER = Path(tempfile.gettempdir()) / "canaryd-bench-peers" / "inspect"
HERE = Path(__file__).parent
RATIOS = {  # of one pair: what, the key in Spent, the goal
    "Processor time of a run": ("run_s", 0.20),
    "Processor time of the whole process": ("process_s", 0.33),
    "Peak memory of the process": ("peak_mib", 0.60),
}


def figures(*, smoke: bool) -> list[Figure]:
    """Return the makespan of a run, and what it takes of processor and memory."""
    return [*makespan(smoke=smoke), *spending(smoke=smoke)]


def makespan(*, smoke: bool) -> list[Figure]:
    """Return the wall time of asking a panel after the pre-flight, against the bare SDK and against the ideal."""
    items, latency_s, pairs = (20, 0.01, 1) if smoke else (240, 0.2, 7)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        panel = write_panel(folder, items=items)
        with serving(folder / "answers.json", latency_s=latency_s) as base_url:
            project = write_project(folder, panel, base_url=base_url)
            ours, bare = [], []
            for day in range(pairs):
                ours.append(seconds_of_asking(project, day))
                bare.append(asyncio.run(seconds_of_sdk(panel, base_url)))
        project.require_all_passed(days=pairs)
    ideal_s = -(-items // CONCURRENCY) * latency_s
    size = f"{items} prompts, {latency_s * 1000:g} ms, {CONCURRENCY} at once; {pairs} pairs"
    to_bare = statistics.median(mine / theirs for mine, theirs in zip(ours, bare, strict=True))
    to_ideal = statistics.median(mine / ideal_s for mine in ours)
    return [
        at_most("Panel run", "a bare gather of the SDK", size=size, ratio=to_bare, goal=1.03),
        at_most("Panel run", "the ideal makespan", size=size, ratio=to_ideal, goal=1.08),
    ]


def seconds_of_asking(project: Project, day: int) -> float:
    """Measure a day and return the seconds from its first item to the last stored sample."""
    took_s: list[float] = []
    ask_all = daily.ask_all

    async def timed(*arguments: object, **options: object) -> None:
        began_s = time.perf_counter()
        await ask_all(*arguments, **options)
        took_s.append(time.perf_counter() - began_s)

    with mock.patch.object(daily, "ask_all", timed):
        daily.measure_slot(project.config, project.config.series[0], slot_date=project.begin_day(day))
    return took_s[0]


async def seconds_of_sdk(panel: Panel, base_url: str) -> float:
    """Return the seconds in which the SDK alone brings the same replies; one call went before, as in the pre-flight."""
    free = asyncio.Semaphore(CONCURRENCY)
    async with openai.AsyncOpenAI(api_key=KEY, base_url=base_url, max_retries=0) as client:

        async def ask(prompt: str) -> str:
            messages = [{"role": "system", "content": panel.system}, {"role": "user", "content": prompt}]
            async with free:
                completion = await client.chat.completions.create(model=MODEL, messages=messages)
            return completion.choices[0].message.content

        await ask(panel.items[0].prompt)
        began_s = time.perf_counter()
        replies = await asyncio.gather(*(ask(item.prompt) for item in panel.items))
        took_s = time.perf_counter() - began_s
    assert all(replies)
    return took_s


@dataclass(frozen=True)
class Spent:
    """What a process took: processor seconds of its run, of all of it, and its peak memory."""

    run_s: float
    process_s: float
    peak_mib: float


def spending(*, smoke: bool) -> list[Figure]:
    """Return processor time and peak memory of a run against inspect_ai; the smoke run has no peer."""
    items, pairs = (20, 1) if smoke else (240, 5)
    peer = "left out of the smoke run" if smoke else install_peer()
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        panel = write_panel(folder, items=items)
        write_inspect_task(folder, panel)
        with serving(folder / "answers.json", latency_s=0) as base_url:
            project = write_project(folder, panel, base_url=base_url)
            for day in range(pairs):
                project.begin_day(day)
                ours.append(spent([sys.executable, HERE / "timed_run.py"], cwd=folder))
                if isinstance(peer, Path):
                    theirs.append(spent([peer, HERE / "inspect_run.py", folder, base_url], cwd=folder))
        project.require_all_passed(days=pairs)
    against = "inspect_ai, the same prompts and server"
    if isinstance(peer, str):
        return [not_measured(what, against, why=peer, goal=goal) for what, (_, goal) in RATIOS.items()]
    size = f"{items} prompts, 0 ms, one provider, a day of the baseline; {pairs} pairs"
    return [
        at_most(what, against, size=size, ratio=_median_ratio(key, ours, theirs=theirs), goal=goal)
        for what, (key, goal) in RATIOS.items()
    ]


def _median_ratio(key: str, ours: Sequence[Spent], *, theirs: Sequence[Spent]) -> float:
    return statistics.median(getattr(a, key) / getattr(b, key) for a, b in zip(ours, theirs, strict=True))


def write_inspect_task(folder: Path, panel: Panel) -> None:
    """Write what inspect_run.py reads: the prompts with their targets."""
    items = [(item.prompt, str(item.target)) for item in panel.items]
    asked = {"model": MODEL, "system": panel.system, "concurrency": CONCURRENCY, "items": items}
    (folder / "inspect.json").write_text(json.dumps(asked))


def install_peer() -> Path | str:
    """Return the Python of a virtual environment with inspect_ai and our version of the SDK, or why there is none."""
    python = PEER / "bin" / "python"
    wanted = ["inspect-ai>=0.3.200", f"openai=={openai.__version__}"]
    ready = PEER / "ready.txt"
    if ready.exists() and ready.read_text() == repr(wanted):
        return python
    try:
        for command in ([sys.executable, "-m", "venv", PEER], [python, "-m", "pip", "install", "--quiet", *wanted]):
            subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        return f"inspect_ai could not be installed: {(error.stderr.strip().splitlines() or ['no reason given'])[-1]}"
    ready.write_text(repr(wanted))
    return python


def spent(command: Sequence[str | Path], *, cwd: Path) -> Spent:
    """Run a command that ends its stderr with its own figures, and return them with those of the kernel.

    Raises:
        AssertionError: it failed.
    """
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    with (cwd / "stderr.txt").open("w+") as stderr:
        process = subprocess.Popen(
            command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=stderr, env={**kept, "HOME": str(cwd)}
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        stderr.seek(0)
        said = stderr.read()
    assert process.returncode == 0, said
    return Spent(**json.loads(said.splitlines()[-1]), process_s=usage.ru_utime + usage.ru_stime)
