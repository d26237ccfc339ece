"""What each hostile program must end as, run in the real sandbox and judged through the grader as in service."""

from __future__ import annotations

import contextlib
import os
import random
import select
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from canaryd import graders, sandbox
from canaryd.graders import GraderError
from canaryd.records import GraderSpec, Item, JsonValue

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None and not os.environ.get("CANARYD_REQUIRE_REAL"), reason="bubblewrap is not installed"
)

SQUARES: list[JsonValue] = [{"args": [n], "returns": n * n} for n in range(2, 10)]


@dataclass(frozen=True)
class Hostile:
    """A program and what it must end as.

    `answer` is what f() must return; None means that f squares its argument. `wall_s` is short for programs that wait.
    """

    name: str
    ends: str
    code: str
    answer: JsonValue = None
    wall_s: int = 10


LIBC = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
DENIED = "    return 'denied' if ctypes.get_errno() in (1, 38) else ctypes.get_errno()\n"
LOOK = "def f():\n    try:\n        {}\n    except OSError:\n        return 'denied'\n    return 'possible'\n"


def looks(statement: str) -> str:
    """Return a program that says whether a statement is denied."""
    return "import os, socket\n" + LOOK.format(statement)


def calls(statement: str) -> str:
    """Return a program that says whether a system call is denied."""
    return f"{LIBC}def f():\n    {statement}\n{DENIED}"


PROGRAMS = (
    Hostile("right", "pass", "def f(x):\n    return x * x\n"),
    Hostile("wrong", "wrong", "def f(x):\n    return x + x\n"),
    Hostile("syntax error", "exception", "def f(x) return x\n"),
    Hostile("nul byte", "exception", "def f(x):\n    return x * x\n\0"),
    Hostile("lone surrogate", "exception", "def f(x):\n    return '\ud800'\n"),
    Hostile("no function", "exception", "g = 1\n"),
    Hostile("raises", "exception", "def f(x):\n    raise ValueError(x)\n"),
    Hostile("sys.exit(0)", "exception", "import sys\ndef f(x):\n    sys.exit(0)\n"),
    Hostile("exits 0 early", "protocol_error", "import os\nos._exit(0)\n"),
    Hostile("exits 0 in the call", "protocol_error", "import os\ndef f(x):\n    os._exit(0)\n"),
    Hostile(
        "becomes another program", "protocol_error", "import os\ndef f(x):\n    os.execv('/usr/bin/true', ['x'])\n"
    ),
    Hostile("reads standard input", "exception", "def f(x):\n    return input()\n"),
    Hostile("spins", "timeout", "def f(x):\n    while True:\n        pass\n"),
    Hostile(
        "spins and ignores the CPU signal",
        "timeout",
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\ndef f(x):\n    while True:\n        pass\n",
    ),
    Hostile("spins in a regular expression", "timeout", "import re\ndef f(x):\n    re.match('(a+)+b', 'a' * 60)\n"),
    Hostile("sleeps", "timeout", "import time\ndef f(x):\n    time.sleep(1000)\n", wall_s=2),
    Hostile("waits for a sleeping child", "timeout", "import os\ndef f(x):\n    os.system('sleep 1000')\n", wall_s=2),
    Hostile(
        "stops itself", "timeout", "import os, signal\ndef f(x):\n    os.kill(os.getpid(), signal.SIGSTOP)\n", wall_s=2
    ),
    Hostile("one large allocation", "memory", "def f(x):\n    return bytearray(1 << 30)\n"),
    Hostile("a growing list", "memory", "def f(x):\n    a = [0]\n    while True:\n        a += a\n"),
    Hostile("returns 200 MB", "memory", "def f(x):\n    return 'x' * (200 << 20)\n"),
    Hostile("recurses", "exception", "def f(x):\n    return f(x)\n"),
    Hostile(
        "overflows the stack",
        "exception",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(x):\n    return list(map(f, [x]))\n",
    ),
    Hostile("dereferences null", "exception", "import ctypes\ndef f(x):\n    ctypes.string_at(0)\n"),
    Hostile("kills itself", "exception", "import os\ndef f(x):\n    os.kill(os.getpid(), 9)\n"),
    Hostile("fork bomb", "exception", "import os\ndef f(x):\n    while True:\n        os.fork()\n"),
    Hostile(
        "thread bomb",
        "exception",
        "import time\nfrom threading import Thread\n"
        "def f(x):\n    while True:\n        Thread(target=time.sleep, args=(99,)).start()\n",
    ),
    Hostile("floods its output", "output_limit", "def f(x):\n    while True:\n        print('PASS' * 1000)\n"),
    Hostile(
        "floods its errors",
        "output_limit",
        "import os\ndef f(x):\n    while True:\n        os.write(2, b'x' * 65536)\n",
    ),
    Hostile("returns 1 MB", "output_limit", "def f(x):\n    return 'x' * (1 << 20)\n"),
    Hostile("prints as if passed", "wrong", "def f(x):\n    print('PASS', '{\"outcome\": \"returned\"}')\n"),
    Hostile(
        "answers in place of the runner",
        "protocol_error",
        'import os\nos.write(3, b\'{"outcome": "pass", "outputs": []}\')\nos._exit(0)\n',
    ),
    Hostile(
        "claims that the sandbox failed",
        "protocol_error",
        'import os\nos.write(3, b\'{"outcome": "sandbox_error"}\')\nos._exit(0)\n',
    ),
    Hostile("writes noise among the results", "protocol_error", "import os\ndef f(x):\n    os.write(3, b'noise')\n"),
    Hostile(
        "closes everything", "protocol_error", "import os\ndef f(x):\n    os.closerange(0, 64)\n    return x * x\n"
    ),
    Hostile(
        "equal to everything",
        "exception",
        "class E:\n    def __eq__(self, other):\n        return True\ndef f(x):\n    return E()\n",
    ),
    Hostile(
        "an integer equal to everything",
        "wrong",
        "class E(int):\n    def __eq__(self, other):\n        return True\ndef f(x):\n    return E(1)\n",
    ),
    Hostile(
        "patches the encoder",
        "protocol_error",
        'import json\njson.dumps = lambda *_, **k: \'{"outcome": "returned", "outputs": 1}\'\nf = int\n',
    ),
    Hostile(
        "patches assertions",
        "wrong",
        "import builtins\nbuiltins.all = lambda _: True\nbuiltins.AssertionError = Warning\ndef f(x):\n    return 0\n",
    ),
    Hostile("returns NaN", "exception", "def f(x):\n    return float('nan')\n"),
    Hostile("returns a set", "exception", "def f(x):\n    return {x * x}\n"),
    Hostile(
        "returns deep nesting",
        "protocol_error",
        "def f(x):\n    a = []\n    for _ in range(200):\n        a = [a]\n    return a\n",
    ),
    Hostile(
        "kills its parent", "protocol_error", "import os\ndef f(x):\n    os.kill(os.getppid(), 9)\n    return x * x\n"
    ),
    Hostile("kills everything", "protocol_error", "import os\ndef f(x):\n    os.kill(-1, 9)\n    return x * x\n"),
    Hostile(
        "stops its parent",
        "timeout",
        "import os, signal\ndef f(x):\n    os.kill(os.getppid(), signal.SIGSTOP)\n    return x * x\n",
        wall_s=2,
    ),
    Hostile(
        "leaves a daemon behind",
        "pass",
        (
            "import os, time\ndef f(x):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
            "            time.sleep(1000)\n        os._exit(0)\n    return x * x\n"
        ),
    ),
    Hostile("depends on the order of a set", "wrong", "def f(x):\n    return list(set('abcdefgh'))\n"),
    Hostile("a forked child returns too", "pass", "import os\nos.fork()\ndef f(x):\n    return x * x\n"),
    Hostile(
        "looks for expected values in frames",
        "pass",
        (
            "import sys\ndef f():\n    frame, seen = sys._getframe(), ''\n    while frame:\n"
            "        seen += repr(frame.f_locals) + repr(frame.f_globals)\n        frame = frame.f_back\n"
            "    return 'EXPECTED'.lower() in seen\n"
        ),
        False,
    ),
    Hostile(
        "reads every environment",
        "pass",
        (
            "import glob, os\ndef f():\n    seen = repr(dict(os.environ))\n"
            "    for path in glob.glob('/proc/[0-9]*/environ'):\n"
            "        try:\n            seen += open(path).read()\n        except OSError:\n            pass\n"
            "    return 'canary-secret' in seen\n"
        ),
        False,
    ),
    Hostile(
        "sees other processes",
        "pass",
        ("import os\ndef f():\n    return sum(name.isdigit() for name in os.listdir('/proc')) <= 4\n"),
        True,
    ),
    Hostile(
        "writes to the runner's output",
        "pass",
        looks("open(f'/proc/{os.getppid()}/fd/1', 'wb', 0).write(b'0')"),
        "denied",
    ),
    Hostile("reads the runner's memory", "pass", looks("open(f'/proc/{os.getppid()}/mem', 'rb')"), "denied"),
    Hostile("reads /etc/passwd", "pass", looks("open('/etc/passwd')"), "denied"),
    Hostile(
        "reads /etc/passwd through a link",
        "pass",
        looks("os.symlink('/etc/passwd', '/work/l'); open('/work/l')"),
        "denied",
    ),
    Hostile("reads through the first process's root", "pass", looks("open('/proc/1/root/etc/passwd')"), "denied"),
    Hostile("writes to /usr", "pass", looks("open('/usr/x', 'w')"), "denied"),
    Hostile("writes to the root", "pass", looks("open('/x', 'w')"), "denied"),
    Hostile("writes a large file", "pass", looks("open('/work/x', 'wb').write(b'x' * (20 << 20))"), "denied"),
    Hostile(
        "fills the disk",
        "pass",
        looks("[open(f'/work/{n}', 'wb').write(b'x' * (15 << 20)) for n in range(6)]"),
        "denied",
    ),
    Hostile("opens many files", "pass", looks("keep = [open('/dev/null') for _ in range(100)]"), "denied"),
    Hostile("becomes root", "pass", looks("os.setuid(0)"), "denied"),
    Hostile(
        "raises its limits",
        "pass",
        (
            "import resource\ndef f():\n    try:\n        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\n"
            "    except (ValueError, OSError):\n        return 'denied'\n"
        ),
        "denied",
    ),
    Hostile("connects to the host", "pass", looks("socket.create_connection(('127.0.0.1', {port}), 1)"), "denied"),
    Hostile("connects to the network", "pass", looks("socket.create_connection(('192.0.2.1', 80), 1)"), "denied"),
    Hostile(
        "sends a datagram",
        "pass",
        looks("socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))"),
        "denied",
    ),
    Hostile("opens a unix socket", "pass", looks("socket.socket(socket.AF_UNIX)"), "denied"),
    Hostile("traces its parent", "pass", calls("libc.ptrace(16, __import__('os').getppid(), 0, 0)"), "denied"),
    Hostile(
        "reads its parent's memory",
        "pass",
        calls("libc.process_vm_readv(__import__('os').getppid(), 0, 0, 0, 0, 0)"),
        "denied",
    ),
    Hostile("makes a namespace", "pass", calls("libc.unshare(0x10000000)"), "denied"),
    Hostile("mounts", "pass", calls("libc.mount(b'none', b'/work', b'tmpfs', 0, 0)"), "denied"),
    Hostile("kills the first process", "pass", "import os\ndef f():\n    os.kill(1, 9)\n    return 'here'\n", "here"),
)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A port on which this host really listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def sandboxed() -> set[int]:
    """The processes that run in another network than this one, as every sandboxed one does."""
    own = Path("/proc/self/ns/net").readlink()
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "ns" / "net").readlink() != own:
                found.add(int(process.name))
    return found


def ends(process: int) -> bool:
    """Whether a process ends within a minute: one of another test's sandbox does, one left behind would not."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 60)[0])
    finally:
        os.close(descriptor)


def judge(program: Hostile, *, port: int) -> tuple[str, float]:
    """Return what a program ended as, and the score it got."""
    tests: JsonValue = [{"args": [], "returns": program.answer}] if program.answer is not None else SQUARES
    spec = GraderSpec("code", {"entry": "f"})
    item = Item("i", family="f", cluster="c", prompt="", target={"solution": "-", "tests": tests}, grader=spec)
    job = graders.job(item, f"<answer>{program.code.replace('{port}', str(port))}</answer>")
    assert job is not None
    limits = sandbox.Limits(cpu_s=1, wall_s=program.wall_s, memory_bytes=256 * 1024 * 1024)
    result = sandbox.execute(job, backend=sandbox.Bwrap(), rng=random.Random(7), limits=limits)
    graded = graders.grade(item, result)
    return graded.detail, graded.score


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.name for program in PROGRAMS])
def test_a_hostile_program_ends_as_specified(program: Hostile, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARYD_TEST_KEY", "canary-secret")
    before = sandboxed()

    ended, score = judge(program, port=port)

    assert ended == program.ends
    assert score == float(program.ends == "pass")
    assert all(ends(process) for process in sandboxed() - before), "a process was left behind"


def test_the_suite_has_at_least_forty_programs() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS) >= 40


@pytest.mark.parametrize(
    "code",
    [
        "import random\ndef f(x):\n    return random.random()\n",
        "import time\ndef f(x):\n    return time.time_ns()\n",
        "seen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)\n",
    ],
    ids=["random", "clock", "order of inputs"],
)
def test_a_program_whose_two_runs_differ_is_not_measured(code: str) -> None:
    with pytest.raises(GraderError):
        judge(Hostile("", "", code), port=0)
