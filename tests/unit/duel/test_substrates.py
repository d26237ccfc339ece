"""Substrates on loopback and as real processes: a text, or one sentence why there is none."""

import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from canaryd.duel.model import SubstrateConfig
from canaryd.duel.substrates import SubstrateError, build_substrate, require_entry
from canaryd.errors import ConfigError
from canaryd.providers.secret import Secret


def retrieve(folder, *queries, secret=None, **fields):
    """Ask one substrate every query in turn; an error stands for its text."""
    config = SubstrateConfig(**{"id": "s", "timeout_s": 20.0, **fields})

    async def run():
        substrate = build_substrate(config, folder=folder, secret=secret)
        found = []
        for query in queries:
            try:
                found.append(await substrate.retrieve(query))
            except SubstrateError as error:
                found.append(error)
        await substrate.aclose()
        return found

    return asyncio.run(run())


@pytest.fixture
def served():
    """A server on loopback: what it answers by path, and what it was asked."""
    answers, asked = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            asked.append((self.path, self.headers.get("authorization"), json.loads(body)))
            if self.path == "/hang":
                release.wait(timeout=30)
                return
            status, text = answers[self.path]
            self.send_response(status)
            self.send_header("location", "/elsewhere")
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    release = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", answers, asked
    release.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_http(tmp_path, served):
    url, answers, asked = served
    answers["/s"] = (200, json.dumps({"results": [{"text": "fünd"}]}))
    found = retrieve(
        tmp_path,
        "wö?",
        kind="http",
        target=(f"{url}/s",),
        query_field="q",
        text_path="results.0.text",
        secret=Secret("sk-abcdef123", source="test"),
    )
    assert found == ["fünd"]
    assert asked == [("/s", "Bearer sk-abcdef123", {"q": "wö?"})]


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (500, "broken sk-abcdef123", "HTTP 500: broken ***"),
        (302, "", "HTTP 302"),
        (200, "<html>", "the answer is no JSON"),
        (200, '{"texts": 1}', "the answer has nothing at 'text' (it ends at 'text')"),
        (200, '{"text": ["x"]}', "holds a list at 'text', but must hold a text"),
    ],
)
def test_http_faults(tmp_path, served, status, text, said):
    url, answers, asked = served
    answers["/s"] = (status, text)
    secret = Secret("sk-abcdef123", source="test")
    (error,) = retrieve(tmp_path, "q", kind="http", target=(f"{url}/s",), secret=secret)
    assert said in str(error)
    assert len(asked) == 1


def test_http_ends_at_its_deadline_and_without_a_server(tmp_path, served):
    url, *_ = served
    (late,) = retrieve(tmp_path, "q", kind="http", target=(f"{url}/hang",), timeout_s=0.2)
    assert str(late) == "no answer within 0.2 s"
    (gone,) = retrieve(tmp_path, "q", kind="http", target=("http://127.0.0.1:1/x",))
    assert "Connect" in str(gone)


def python(text):
    return sys.executable, "-c", text


def test_a_command(tmp_path):
    (tmp_path / "here").write_text("x")
    shout = python("import os, sys; print(sys.stdin.read().upper(), os.path.exists('here'))")
    assert retrieve(tmp_path, "wö", "b", kind="command", target=shout) == ["WÖ True\n", "B True\n"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (python("import sys; sys.exit('no index')"), "exit code 1: no index"),
        (python("import sys; sys.stdout.buffer.write(b'\\xff')"), "what it wrote is not UTF-8 (byte 0)"),
        (("./nowhere",), "./nowhere cannot be started (No such file or directory)"),
    ],
)
def test_command_faults(tmp_path, command, said):
    (error,) = retrieve(tmp_path, "q", kind="command", target=command)
    assert str(error) == said


def test_a_command_that_hangs_ends_at_its_deadline_with_its_pipes_still_held(tmp_path):
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    (error,) = retrieve(tmp_path, "q", kind="command", target=python(child), timeout_s=0.5)
    assert str(error) == "no text within 0.5 s"


ENTRY = """
import os, sys
count = 0
def search(query):
    global count
    count += 1
    print("noise")
    if query == "die": raise KeyError("no such index")
    if query == "hang":
        while True: pass
    if query == "none": return None
    return f"{query} {count}"
"""


def test_a_python_entry_point_stays_between_queries_and_comes_back_after_a_fault(tmp_path):
    (tmp_path / "mine.py").write_text(ENTRY)
    found = retrieve(tmp_path, "ä\n", "b", "die", "c", "none", kind="python", target=("mine:search",))
    assert found[:2] == ["ä\n 1", "b 2"]
    assert str(found[2]) == "mine:search failed: KeyError: 'no such index'"
    assert found[3] == "c 1"
    assert "mine:search returned NoneType, but must return a text" in str(found[4])


def test_a_python_entry_point_that_hangs_or_does_not_exist(tmp_path):
    (tmp_path / "mine.py").write_text(ENTRY)
    hung, back = retrieve(tmp_path, "hang", "x", kind="python", target=("mine:search",), timeout_s=4.0)
    assert (str(hung), back) == ("no text within 4 s", "x 1")
    (gone,) = retrieve(tmp_path, "x", kind="python", target=("mine:nothing",))
    assert "AttributeError" in str(gone)


@pytest.mark.parametrize("name", ["nowhere:search", "mine:nothing", "mine:NUMBER"])
def test_an_entry_point_that_cannot_be_called_is_refused(name, tmp_path):
    (tmp_path / "mine.py").write_text("NUMBER = 3\n\ndef search(query):\n    return query\n")
    require_entry(SubstrateConfig(kind="python", target=("mine:search",), id="s", timeout_s=20), folder=tmp_path)
    with pytest.raises(ConfigError, match=f"substrate 's': {name} cannot be called"):
        require_entry(SubstrateConfig(kind="python", target=(name,), id="s", timeout_s=20), folder=tmp_path)
