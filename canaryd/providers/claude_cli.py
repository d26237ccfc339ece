"""`claude -p`, shut off from everything but the question: one program run for each ask."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from canaryd.errors import ConfigError
from canaryd.providers.base import (
    ProviderError,
    Surroundings,
    WireRequest,
    bad_option,
    proxy_of,
    redactor_of,
    required_secret,
    text_option,
    timed_out,
)
from canaryd.providers.claude_output import from_output
from canaryd.providers.secret import Secret
from canaryd.records import Arm, Ask, JsonValue, Reply

PARAMS = frozenset({"max_tokens", "effort"})
OPTIONS = frozenset({"executable", "version", "auth", "thinking_tokens", "bare", "proxy"})
_KEY_VARIABLES = {"api_key": "ANTHROPIC_API_KEY", "oauth_token": "CLAUDE_CODE_OAUTH_TOKEN"}
_ARGUMENTS = (
    "-p",
    "--output-format",
    "stream-json",
    "--verbose",
    "--tools",
    "",
    "--strict-mcp-config",
    "--setting-sources",
    "",
    "--disable-slash-commands",
    "--no-session-persistence",
    "--max-turns",
    "1",
)
#: The updater, telemetry, and everything by which the program would ask twice or ask another model, off.
_SETTINGS = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "DISABLE_AUTOUPDATER": "1",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
}
_VERSION_TIMEOUT_S = 60


def build(arm: Arm, surroundings: Surroundings) -> ClaudeCliProvider:
    """Return the provider of an arm.

    Raises:
        ConfigError: the program is missing or of another version than the pinned one, or an option cannot be read.
    """
    path = surroundings.env.get("PATH", os.defpath)
    executable = shutil.which(text_option(arm, "executable") or "claude", path=path)
    if executable is None:
        raise ConfigError(
            f"arm {arm.name!r}: the program {arm.options.get('executable', 'claude')!r} is not on PATH; install "
            "Claude Code, or give its path as options.executable"
        )
    return ClaudeCliProvider(
        arm, required_secret(arm, surroundings.secret), executable=Path(executable).resolve(), path=path
    )


class ClaudeCliProvider:
    """One child process for each ask, in an empty directory, with a scrubbed environment and a home of its own."""

    def __init__(self, arm: Arm, secret: Secret, *, executable: Path, path: str) -> None:
        self._arm = arm
        self._secret = secret
        self._executable = executable
        self._arguments = arguments(arm)
        self._settings = settings(arm)
        self._key_variable = _KEY_VARIABLES[text_option(arm, "auth", allowed=_KEY_VARIABLES) or "api_key"]
        proxy = proxy_of(arm)
        self._proxies = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy} if proxy else {}
        self._path = path
        self._work = empty_directory(arm)
        self._version = pinned_version(arm, executable, path=path)

    async def ask(self, ask: Ask) -> Reply:
        """Return the reply to one question.

        Raises:
            ProviderError: there is no reply.
        """
        if not ask.system:
            raise ProviderError("bad_request", "claude -p has a system prompt of its own where none is given; give one")
        redactor = redactor_of(self._arm, ask, secrets=(self._secret,))
        with tempfile.TemporaryDirectory(prefix="canaryd-claude-", ignore_cleanup_errors=True) as folder:
            stdout, stderr = await self._run(ask, Path(folder))
        return from_output(stdout, stderr, model=self._arm.model, redactor=redactor)

    def wire_request(self, ask: Ask) -> WireRequest:
        """Return what the program is given, without host and key; what it makes of that is pinned by its version."""
        body: dict[str, JsonValue] = {
            "arguments": list(self._arguments),
            "settings": dict(self._settings),
            "key": self._key_variable,
            "address path": urlsplit(self._arm.base_url or "").path,
            "directory": str(self._work),
            "system": ask.system,
            "prompt": ask.prompt,
        }
        return WireRequest("RUN", "claude", body)

    def tool_versions(self) -> Mapping[str, str]:
        """Return the program's version."""
        return {"claude": self._version}

    async def aclose(self) -> None:
        """Close nothing: a run that ends leaves no process."""

    async def _run(self, ask: Ask, folder: Path) -> tuple[bytes, bytes]:
        """Return stdout and stderr of one run; at the deadline the program and its children are killed."""
        system = folder / "system.txt"
        system.write_bytes(ask.system.encode())
        try:
            process = await asyncio.create_subprocess_exec(
                self._executable,
                *self._arguments,
                "--system-prompt-file",
                system,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._work,
                env=self._environment(folder / "home"),
                start_new_session=True,
            )
        except OSError as error:
            raise ProviderError("not_found", f"{self._executable} cannot be run: {error.strerror}") from None
        try:
            async with asyncio.timeout(self._arm.timeout_s):
                return await process.communicate(ask.prompt.encode())
        except TimeoutError:
            failure = timed_out(self._arm.timeout_s)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        raise failure

    def _environment(self, home: Path) -> dict[str, str]:
        address = {"ANTHROPIC_BASE_URL": self._arm.base_url} if self._arm.base_url else {}
        own = {"PATH": self._path, "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home)}
        return {**own, **self._settings, **self._proxies, **address, self._key_variable: self._secret.reveal()}


def empty_directory(arm: Arm) -> Path:
    """Return an empty directory of this user's own; its path is stable, because the program tells it to the model.

    Raises:
        ConfigError: the directory belongs to somebody else, or is not empty.
    """
    path = Path(tempfile.gettempdir()) / f"canaryd-claude-{os.getuid()}"
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.getuid()
        or status.st_mode & 0o022
        or any(path.iterdir())
    ):
        raise ConfigError(f"arm {arm.name!r}: {path} must be an empty directory of this user's own; remove it")
    return path


def arguments(arm: Arm) -> tuple[str, ...]:
    """Return the program's arguments; question and system prompt are not among them, as everybody can read those.

    Raises:
        ConfigError: options.bare is neither true nor false.
    """
    if not isinstance(arm.options.get("bare", False), bool):
        raise bad_option(arm, "bare", why=f"is {arm.options['bare']!r}, but must be true or false")
    effort = ("--effort", str(arm.params["effort"])) if "effort" in arm.params else ()
    bare = ("--bare",) if arm.options.get("bare") else ()
    return (*_ARGUMENTS, "--model", arm.model, *effort, *bare)


def settings(arm: Arm) -> dict[str, str]:
    """Return the environment variables by which the program is set up.

    Raises:
        ConfigError: a limit is no number of tokens.
    """
    limits = {
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": arm.params.get("max_tokens"),
        "MAX_THINKING_TOKENS": arm.options.get("thinking_tokens"),
    }
    for value in limits.values():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise ConfigError(
                f"arm {arm.name!r}: {value!r} is no number of tokens; mend params.max_tokens or options.thinking_tokens"
            )
    return {**_SETTINGS, **{name: str(value) for name, value in limits.items() if value is not None}}


def pinned_version(arm: Arm, executable: Path, *, path: str) -> str:
    """Return the version of the program.

    Raises:
        ConfigError: options.version is missing, or the program is of another one.
    """
    pinned = text_option(arm, "version")
    try:
        printed = subprocess.run(  # noqa: S603 - the program is the one that the configuration names
            [executable, "--version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            env={"PATH": path, "HOME": "/nonexistent", "DISABLE_AUTOUPDATER": "1"},
            stdin=subprocess.DEVNULL,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"arm {arm.name!r}: {executable} --version cannot be run ({type(error).__name__})") from None
    version = (printed.split() or ["unknown"])[0]
    if pinned != version:
        raise ConfigError(
            f"arm {arm.name!r}: {executable} is version {version}, but options.version pins {pinned or 'none'}; "
            "a changed program looks like a changed model, so install the pinned one, or pin the new one"
        )
    return version
