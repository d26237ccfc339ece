"""`claude -p` as it prints, played by a stub executable, for the claude_cli provider."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

PROVIDER = "claude_cli"
VERSION = "2.1.197"
STUB = """#!{python}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
if "--version" in sys.argv:
    print("{version} (Claude Code)")
    raise SystemExit
asked = sys.stdin.read()
seen = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd(), "prompt": asked}}
seen["files"] = os.listdir(".")
seen["system"] = pathlib.Path(sys.argv[sys.argv.index("--system-prompt-file") + 1]).read_text()
(here / "seen.json").write_text(json.dumps(seen))
plan = json.loads((here / "plan.json").read_text())
print(plan["stdout"], flush=True)
print(plan["stderr"], file=sys.stderr)
if plan["stalls"]:
    os.fork()
    os.write(os.open(here / "alive", os.O_RDWR), b"1")
    os.open(here / "never", os.O_RDONLY)
raise SystemExit(plan["status"])
"""


def init() -> dict[str, Any]:
    return {"type": "system", "subtype": "init", "tools": [], "mcp_servers": [], "claude_code_version": VERSION}


def assistant(text: str, model: str = "m-1-0513", reply: str = "msg-1") -> dict[str, Any]:
    message = {"id": reply, "role": "assistant", "model": model, "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message}


def result(text: str = "<answer>42</answer>", **changes: Any) -> dict[str, Any]:
    usage = {"input_tokens": 21, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 10, "output_tokens": 13}
    body = {"type": "result", "subtype": "success", "is_error": False, "api_error_status": None, "num_turns": 1}
    body |= {"result": text, "stop_reason": "end_turn", "session_id": "s-1", "usage": usage}
    return {**body, "modelUsage": {"m-1": {}}, **changes}


def failed(text: str, status: int | None = None, **changes: Any) -> list[dict[str, Any]]:
    synthetic = assistant(text, model="<synthetic>", reply="made-up")
    return [init(), synthetic, result(text, is_error=True, api_error_status=status, **changes)]


def printed(*lines: Any, status: int = 0, stderr: str = "", stalls: bool = False) -> dict[str, Any]:
    stdout = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return {"stdout": stdout, "stderr": stderr, "status": status, "stalls": stalls}


ANSWER = assistant("<answer>42</answer>")
NUDGE = {"type": "user", "isSynthetic": True, "message": {"role": "user", "content": "Please continue."}}
CASES = {
    "good": printed(init(), ANSWER, result()),
    "no usage": printed(init(), ANSWER, result(usage=None)),
    "echo": printed(result()),
    "refusal": printed(*failed("API Error: Claude Code is unable to respond to this request", stop_reason="refusal")),
    "content filter": printed(*failed("API Error: 400 Output blocked by content filtering policy", 400), status=1),
    "truncated": printed(*failed("API Error: Claude's response exceeded the 64 output token maximum."), status=1),
    "empty": printed(init(), NUDGE, result("", num_turns=2)),
    "malformed": printed(init(), result(subtype="error_max_turns")),
    "rate limited": printed(*failed("You've hit your limit · resets 3pm")),
    "quota": printed(*failed("Credit balance is too low", 400), status=1),
    "overloaded": printed(*failed("API Error: 529 no way.", 529), status=1),
    "server error": printed(*failed("API Error: 500 no way.", 500), status=1),
    "broken JSON": printed('{"type": "result", "sub', status=1),
    "auth": printed(*failed("Invalid API key KEY · Please run /login"), status=1),
    "not found": printed(*failed("There's an issue with the selected model (m-1).", 404), status=1),
    "bad request": printed("", stderr="error: unknown option '--bare'", status=1),
    "stall": printed(stalls=True),
    "reset": printed(*failed("API Error: Unable to connect to API (ECONNRESET)"), status=1),
    "asked twice": printed(init(), ANSWER, assistant("<answer>42</answer>", reply="msg-2"), result()),
}


def arrange(case: str | dict[str, Any], *, folder: Path, url: str) -> dict[str, Any]:
    plan = CASES[case] if isinstance(case, str) else case
    plan = {**plan, "stdout": plan["stdout"].replace("KEY", "sk-planted-0123456789abcdef")}
    (folder / "plan.json").write_text(json.dumps(plan))
    stub = folder / "claude"
    stub.write_text(STUB.format(python=sys.executable, version=VERSION))
    stub.chmod(0o755)
    for pipe in ("alive", "never"):
        if not (folder / pipe).exists():
            os.mkfifo(folder / pipe)
    return {"base_url": url, "options": {"executable": str(stub), "version": VERSION}}
