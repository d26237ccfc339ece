"""Serve a GGUF model on 127.0.0.1, OpenAI-compatible, one request at a time on one thread: `FILE PORT`.

Greedy answers of such a server do not depend on what else is asked at the time. It needs the package `xllamacpp`, in an
environment of its own; canaryd does not.
"""

from __future__ import annotations

import sys
import threading

import xllamacpp


def main() -> None:
    """Serve until the process is stopped."""
    path, port = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_parallel = 1
    params.n_ctx = 4096
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(f"serving {path} on {server.listening_address}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
