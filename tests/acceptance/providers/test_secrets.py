"""No key reaches anything that a process leaves behind, whatever fails while it is in use."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2 as httpx
import pytest

#: Distinct keys without a form that a pattern could know, by the name of their credential.
KEYS = {
    "credential": "planted-Qe81xT-credential-directory",
    "file": "planted-Jw22kM-key-file",
    "variable": "PLANTEDZ8V3R1T9L:planted/Lb47+variable:planted-Zt19nD-session-of-a-variable",
    "named": "planted-Hn63cB-file-of-a-variable",
    "program": "planted-Ys05dG-key-of-a-program",
    "judge": "planted-Vb58sQ-key-of-the-judge",
    # No credential of an arm: what AWS's own chain finds in a shared file.
    "profile": "PLANTEDW6X2F4M7C:planted/Dk90+profile:planted-Rn36hJ-session-of-a-profile",
}
CREDENTIALS = {
    "openai": "credential",
    "anthropic": "file",
    "bedrock": "variable",
    "profile": None,
    "http": "named",
    "claude": "program",
}
PG_PASSWORD = "planted-Xc17fT-password-of-the-store"
PASSWORD = "planted-Ur39pW-password"
HEADER = "planted-Ea74vC-header"
SECRETS = [part.encode() for key in (*KEYS.values(), PG_PASSWORD, PASSWORD, HEADER) for part in key.split(":")]
PATIENCE_S = 120.0
AWS_NAMES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
#: A program that answers rightly only where no key is in its sight.
CLEAN = """
import glob, os

def double(x):
    seen = [repr(dict(os.environ)).encode()]
    for name in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
        try:
            seen.append(open(name, "rb").read())
        except OSError:
            pass
    return "seen" if any(b"planted" in each.lower() for each in seen) else 2 * x
"""
#: Breaks the process where the key is at hand, with the key in the error's text.
BREAKS = """
from canaryd.providers.secret import Secret

def reveal(self):
    raise RuntimeError(self._value)

Secret.reveal = reveal
"""
ITEMS: dict[str, dict[str, Any]] = {
    f"i{n}": {
        "family": "f",
        "cluster": f"c{n}",
        "prompt": f"What is {n} + {n}?",
        "target": str(2 * n),
        "grader": {"type": "exact"},
    }
    for n in range(12)
} | {
    "code": {
        "family": "g",
        "cluster": "code",
        "prompt": "Write a function called double.",
        "target": {"solution": "def double(x):\n    return 2 * x", "tests": [{"args": [2], "returns": 4}]},
        "grader": {"type": "code", "entry": "double"},
    },
    "why": {
        "family": "h",
        "prompt": "Why is ice slippery?",
        "target": "because of its surface",
        "grader": {"type": "judge", "rubric": "Names the surface."},
    },
}
ANCHOR = {"id": "right", "item": "why", "answer": "<answer>its surface</answer>", "label": "correct"}


class Leaky:
    """A server that repeats every header of a request, keys included, in whatever it answers wrongly."""

    def __init__(self) -> None:
        self.project: Any = None
        self.received: list[bytes] = []
        self.leaks: list[str] = []
        self.all_refused = False
        self.met: dict[tuple[str, str], int] = {}

    def __call__(self, series: str, role: str, item_id: str, arrived: Any) -> dict[str, Any]:
        self.look_around()
        echo = " ".join(arrived.headers.values())
        self.received.append(echo.encode())
        if role == "judge":
            said = [*self.failures("http", echo)[1:3], self.project.reply("http", item_id, answer=echo)]
            return said[len(self.received) % len(said)]
        failures = self.failures(series, echo)
        if self.all_refused:
            return failures[0]
        if item_id == "code":
            reply: dict[str, Any] = self.project.reply(series, item_id, answer=CLEAN)
            return reply
        place = 0 if item_id == "pre-flight" else self.met.setdefault((series, item_id), len(self.of(series)))
        return failures[place - 1] if 0 < place <= len(failures) else self.project.reply(series, item_id)

    def of(self, series: str) -> list[str]:
        """The questions of a series that were asked so far; the first of them is answered well."""
        return [item_id for name, item_id in list(self.met) if name == series]

    def look_around(self) -> None:
        """Look, while a call is on its way, at what everybody may read of processes, and at what the store writes."""
        for path in [*Path("/proc").glob("[0-9]*/cmdline"), *self.project.folder.glob("canaryd.db*")]:
            try:
                self.leaks += leaks(str(path), path.read_bytes())
            except OSError:
                continue

    def failures(self, series: str, echo: str) -> list[dict[str, Any]]:
        """Return every way in which the server repeats what it was sent, a good reply among them."""
        repeated = self.project.reply(series, "i0", answer=echo)
        wire = self.project.wire(series)
        if series == "claude":
            plans = [
                wire["printed"](*wire["failed"](f"Invalid API key {echo}", 401), status=1),
                wire["printed"](*wire["failed"](f"API Error: 500 {echo}", 500), status=1),
                wire["printed"]("", stderr=f"error: {echo}", status=1),
                wire["printed"](f'{{"type": "result", "{echo}', status=1),
            ]
            return [{"body": json.dumps(plan).encode()} for plan in plans] + [repeated]
        statuses = (401, 400, 500, 429)
        garbage = f'{{"id": "{echo}'.encode()
        return [
            *(wire["error"](status, "refused", f"refused: {echo}", **{"x-echo": echo}) for status in statuses),
            {"body": garbage},
            {"status": 502, "body": garbage},
            {"status": 302, "headers": {"location": f"/elsewhere?key={quote(echo)}"}},
            {**self.project.reply(series, "i0"), "headers": {"x-cache": f"HIT {echo}"}},
            {"body": garbage, "manner": "reset"},
            repeated,
        ]


def leaks(where: str, content: bytes) -> list[str]:
    """Return what of the secrets stands in something."""
    return [f"{secret.decode()} in {where}" for secret in SECRETS if secret in content]


@pytest.fixture
def leaky(real_providers: Any, tmp_path: Path) -> Leaky:
    """A project of five series whose keys lie in the five places that a key may come from."""
    server = Leaky()
    project = server.project = real_providers(server, items=ITEMS, timeout_s=30.0)
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "aws").write_text("[default]\n" + "".join(map("{} = {}\n".format, AWS_NAMES, KEYS["profile"].split(":"))))
    (project.folder / "anchors.jsonl").write_text(json.dumps(ANCHOR) + "\n")
    for name in ("credential", "file", "named", "program", "judge"):
        (keys / name).write_text(KEYS[name] + "\n")
    project.write(
        {series: [project.arm(series, "tracked", credential=name)] for series, name in CREDENTIALS.items()},
        head=f'[credentials]\nallow_env = true\nfile_file = "{keys}/file"\nprogram_file = "{keys}/program"\n'
        f'judge_file = "{keys}/judge"\n[retry]\ncalls = 2\nfirst_wait_s = 0.0\ntotal_wait_s = 0.0',
        judged_by="judge",
    )
    directory = tmp_path / "systemd"
    directory.mkdir()
    (keys / "credential").rename(directory / "credential")
    return server


def test_no_key_is_left_anywhere(canaryd: Any, leaky: Leaky, port: int, tmp_path: Path) -> None:
    project, folder, said = leaky.project, tmp_path / "project", []
    (tmp_path / "tmp").mkdir()
    variables = {
        "CREDENTIALS_DIRECTORY": str(tmp_path / "systemd"),
        "VARIABLE": KEYS["variable"],
        "NAMED_FILE": str(tmp_path / "keys" / "named"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "keys" / "aws"),
        "PGPASSWORD": PG_PASSWORD,
        "TMPDIR": str(tmp_path / "tmp"),
        "MPLCONFIGDIR": str(tmp_path.parent / "fonts"),
    }

    def say(*arguments: str, code: int, config: str = "config.toml", **more: str) -> Any:
        done = canaryd("--config", f"project/{config}", *arguments, **variables, **more)
        said.append(done.out + done.err)
        assert done.code == code, (arguments, done.code, done.err)
        return done

    def all_series(*arguments: str, code: int) -> None:
        with ThreadPoolExecutor(len(CREDENTIALS)) as pool:
            list(pool.map(lambda series: say(*arguments, "--series", series, code=code), CREDENTIALS))

    project.set_clock(1)
    all_series("run", code=69)
    leaky.all_refused = True
    project.set_clock(2)
    all_series("run", code=69)
    say("doctor", code=69)
    leaky.all_refused = False

    (tmp_path / "breaks").mkdir()
    (tmp_path / "breaks" / "sitecustomize.py").write_text(BREAKS)
    say("run", "--series", "openai", code=70, PYTHONPATH=str(tmp_path / "breaks"))
    assert list((tmp_path / "tmp").glob("canaryd-crash-*.txt"))

    text = (folder / "config.toml").read_text()
    url, header = f"postgresql://u:{PASSWORD}@127.0.0.1/x", f'headers = {{ x-api-key = "{HEADER}" }}, url = "/ask'
    (tmp_path / "keys" / "url.toml").write_text(text.replace("sqlite:///canaryd.db", url))
    say("run", "--series", "http", code=78, config="../keys/url.toml")
    (folder / "config.toml").write_text(text.replace('url = "/ask', header))
    say("run", "--series", "http", code=78)
    (folder / "config.toml").write_text(text)

    project.set_clock(3)
    said.append(measured_by_the_daemon(folder, port, variables))

    for command in ("status", "status --json", "config show", "metrics", "verify", "db check"):
        say(*command.split(), code=0)
    say("check", code=2)
    say("report", code=0)
    say("export", str(tmp_path / "openai.csv"), "--series", "openai", "--format", "csv", code=0)
    with ThreadPoolExecutor(len(CREDENTIALS)) as pool:
        # The store packs its texts; an export does not.
        exported = [(str(tmp_path / f"{series}.jsonl"), series) for series in CREDENTIALS]
        list(pool.map(lambda each: say("export", each[0], "--series", each[1], code=0), exported))

    # They sign, and are not sent.
    signing = [KEYS[name].split(":")[1].encode() for name in ("variable", "profile")]
    sent = [part for part in SECRETS if any(part in each for each in leaky.received)]
    assert set(SECRETS) - set(sent) == {*signing, PG_PASSWORD.encode(), PASSWORD.encode(), HEADER.encode()}
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name not in ("keys", "systemd")]
    names = {path.name for path in kept}
    assert {"canaryd.db", "daemon.log", "openai.csv", *(f"{series}.jsonl" for series in CREDENTIALS)} <= names
    found = [leak for path in kept for leak in leaks(path.name, path.read_bytes())]
    assert found + leaky.leaks + leaks("what was printed", "".join(said).encode()) == []
    assert scores_of_code(folder) == {1.0}


def scores_of_code(folder: Path) -> set[float | None]:
    """Return the scores of the program that looks for keys: it ran in the sandbox and saw none."""
    with closing(sqlite3.connect(folder / "canaryd.db")) as connection:
        return {score for (score,) in connection.execute("SELECT score FROM sample WHERE item_id = 'code'")}


def measured_by_the_daemon(folder: Path, port: int, variables: dict[str, str]) -> str:
    """Run the daemon until it has measured the third day of every series, and return its metrics."""
    command = [sys.executable, "-m", "canaryd", "--config", str(folder / "config.toml"), "daemon"]
    # It draws no pages, for want of a folder: what stands in a report is looked at in one that is asked for.
    (folder / "no-folder").touch()
    with (folder / "daemon.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--log-level", "debug", "--web.listen-address", f"127.0.0.1:{port}"],
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "CACHE_DIRECTORY": str(folder / "no-folder"),
                **variables,
            },
            stderr=log,
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while measured_on(folder, "2027-01-03") < len(CREDENTIALS):
            assert process.poll() is None, (folder / "daemon.log").read_text()
            assert time.monotonic() < deadline, "the daemon has not measured the third day"
            time.sleep(0.1)
        return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def measured_on(folder: Path, day: str) -> int:
    """Return how many series have a run of a day that has ended."""
    query = f"SELECT count(DISTINCT series) FROM run_start JOIN run_end USING (run_id) WHERE slot_date = '{day}'"
    with closing(sqlite3.connect(folder / "canaryd.db")) as connection:
        return int(connection.execute(query).fetchone()[0])
