"""The process of a Python entry point: queries come in as JSON lines, and each text goes out as one.

It runs apart, so that a fault or an endless loop in it costs one query. What the function prints goes to
standard error.
"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from importlib import import_module
from typing import TextIO


def serve(entry: str, *, queries: TextIO, texts: TextIO) -> None:
    """Answer every query with what `package.module:function` returns; an exception in it ends the process.

    Raises:
        TypeError: it is no function, or returned something else than a text.
    """
    module, _, name = entry.partition(":")
    with redirect_stdout(sys.stderr):
        function = getattr(import_module(module), name)
    if not callable(function):
        raise TypeError(f"{entry} is {type(function).__name__}, but must be a function")
    for line in queries:
        with redirect_stdout(sys.stderr):
            text = function(json.loads(line))
        if not isinstance(text, str):
            raise TypeError(f"{entry} returned {type(text).__name__}, but must return a text")
        texts.write(json.dumps(text) + "\n")
        texts.flush()


if __name__ == "__main__":
    serve(sys.argv[1], queries=sys.stdin, texts=sys.stdout)
