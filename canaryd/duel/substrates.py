"""Substrates: anything that turns a query into text, by HTTP, as a command or as a Python entry point."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from canaryd.duel.model import SubstrateConfig
from canaryd.errors import CanarydError, ConfigError
from canaryd.providers.secret import Secret, redact

#: A text longer than this is cut while it is read; what a duel registers is far shorter.
LARGEST_TEXT = 4_000_000


class SubstrateError(CanarydError):
    """A substrate brought no text for a query: a redacted sentence says why."""


class Substrate(Protocol):
    """One thing that retrieves; asked for one query at a time."""

    async def retrieve(self, query: str) -> str:
        """Return the retrieved text.

        Raises:
            SubstrateError: there is none; nothing else is raised.
        """

    async def aclose(self) -> None:
        """Close connections and child processes."""


def build_substrate(config: SubstrateConfig, *, folder: Path, secret: Secret | None) -> Substrate:
    """Return the substrate of a configuration; commands and entry points run in `folder`."""
    if config.kind == "http":
        return HttpSubstrate(config, secret=secret)
    if config.kind == "command":
        return CommandSubstrate(config, folder=folder)
    return PythonSubstrate(config, folder=folder)


def require_entry(config: SubstrateConfig, *, folder: Path) -> None:
    """Refuse a Python entry point that cannot be called: its process is started and asked nothing.

    Raises:
        ConfigError: it cannot be imported, or is no function.
    """
    if config.kind != "python":
        return
    entry = config.target[0]
    command = (sys.executable, "-m", "canaryd.duel.entry", entry)
    try:
        ended = subprocess.run(  # noqa: S603 - it is the code that the plan names, as in every run
            command, cwd=folder, input=b"", capture_output=True, timeout=config.timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"substrate {config.id!r}: {entry} is not imported within {config.timeout_s:g} s") from None
    if ended.returncode != 0:
        raise ConfigError(
            f"substrate {config.id!r}: {entry} cannot be called ({_last_line(ended.stderr)}); mend the entry, or put "
            f"its module into {folder}"
        )


class HttpSubstrate:
    """A POST of a JSON object with the query; the text is taken from the answer by a dotted path."""

    def __init__(self, config: SubstrateConfig, *, secret: Secret | None) -> None:
        import httpx2

        self._config = config
        self._secret = secret
        headers = {"authorization": f"Bearer {secret.reveal()}"} if secret else {}
        self._client = httpx2.AsyncClient(headers=headers, timeout=None, follow_redirects=False)

    async def retrieve(self, query: str) -> str:
        """Return the text at the configured path of the answer.

        Raises:
            SubstrateError: no answer in time, a status other than 200, or no text at the path.
        """
        import httpx2

        config = self._config
        try:
            async with asyncio.timeout(config.timeout_s):
                response = await self._client.post(config.target[0], json={config.query_field: query})
        except TimeoutError:
            raise SubstrateError(f"no answer within {config.timeout_s:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise SubstrateError(redact(f"{type(error).__name__}: {error}", secrets=(self._secret,))) from None
        if response.status_code != 200:
            raise SubstrateError(redact(f"HTTP {response.status_code}: {response.text}", secrets=(self._secret,)))
        try:
            return text_at_path(response.json(), config.text_path)
        except ValueError as error:
            raise SubstrateError(redact(f"the answer is no JSON: {error}")) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class CommandSubstrate:
    """A command that reads the query on standard input and writes the text on standard output."""

    def __init__(self, config: SubstrateConfig, *, folder: Path) -> None:
        self._config = config
        self._folder = folder

    async def retrieve(self, query: str) -> str:
        """Return what the command wrote.

        Raises:
            SubstrateError: it could not be started, took too long, exited with another code than 0, or wrote no UTF-8.
        """
        process = await _start(self._config.target, folder=self._folder)
        try:
            async with asyncio.timeout(self._config.timeout_s):
                out, err = await process.communicate(query.encode(errors="replace"))
        except TimeoutError:
            raise SubstrateError(f"no text within {self._config.timeout_s:g} s") from None
        finally:
            await _end(process)
        if process.returncode != 0:
            raise SubstrateError(f"exit code {process.returncode}: {_last_line(err)}")
        try:
            return out.decode()
        except UnicodeDecodeError as error:
            raise SubstrateError(f"what it wrote is not UTF-8 (byte {error.start})") from None

    async def aclose(self) -> None:
        """Close nothing: each command has ended."""


class PythonSubstrate:
    """A Python function in a process of its own, which is started again after it died."""

    def __init__(self, config: SubstrateConfig, *, folder: Path) -> None:
        self._config = config
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def retrieve(self, query: str) -> str:
        """Return what the function returned.

        Raises:
            SubstrateError: it raised, returned no text, or took too long.
        """
        async with self._turn:
            try:
                async with asyncio.timeout(self._config.timeout_s):
                    return await self._exchange(query)
            except TimeoutError:
                await self.aclose()
                raise SubstrateError(f"no text within {self._config.timeout_s:g} s") from None

    async def _exchange(self, query: str) -> str:
        if self._process is None:
            command = (sys.executable, "-m", "canaryd.duel.entry", self._config.target[0])
            self._process = await _start(command, folder=self._folder)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(json.dumps(query).encode() + b"\n")
        try:
            await process.stdin.drain()
            line = await process.stdout.readline()
        except (ConnectionError, ValueError) as error:
            line, why = b"", str(error)
        else:
            why = ""
        if line:
            text: str = json.loads(line)
            return text
        why = _last_line(await process.stderr.read()) or why
        await self.aclose()
        raise SubstrateError(f"{self._config.target[0]} failed: {why}")

    async def aclose(self) -> None:
        """End the process."""
        if self._process is not None:
            await _end(self._process)
            self._process = None


def text_at_path(body: Any, path: str) -> str:
    """Return the text at a dotted path; a number steps into a list.

    Raises:
        SubstrateError: there is none.

    >>> text_at_path({"results": [{"text": "found"}]}, "results.0.text")
    'found'
    """
    found = body
    for step in path.split("."):
        if isinstance(found, list) and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, Mapping) and step in found:
            found = found[step]
        else:
            raise SubstrateError(f"the answer has nothing at {path!r} (it ends at {step!r})")
    if not isinstance(found, str):
        raise SubstrateError(f"the answer holds a {type(found).__name__} at {path!r}, but must hold a text")
    return found


async def _start(command: Sequence[str], *, folder: Path) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=LARGEST_TEXT,
        )
    except OSError as error:
        raise SubstrateError(f"{command[0]} cannot be started ({error.strerror})") from None


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process with everything it started; its session is its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _last_line(err: bytes) -> str:
    lines = err.decode(errors="replace").strip().splitlines()
    return redact(lines[-1]) if lines else "no word on standard error"
