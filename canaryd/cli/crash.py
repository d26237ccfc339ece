"""An unexpected error leaves a file with the traceback's places, and nothing of the values that were in play."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Iterator

from canaryd import __version__


def write_crash_file(error: BaseException) -> str:
    """Return where a new private file is, with the error's class and the code lines it came through.

    The error's text and every local value stay out, since either may hold a key, a prompt or an answer.
    """
    try:
        handle, path = tempfile.mkstemp(prefix="canaryd-crash-", suffix=".txt")
        with os.fdopen(handle, "w") as file:
            file.writelines(_lines(error))
    except OSError as refused:
        return f"the details could not be written to the temporary folder ({refused.strerror})"
    return f"the details are in {path}"


def _lines(error: BaseException) -> Iterator[str]:
    yield f"canaryd {__version__}: {type(error).__module__}.{type(error).__qualname__}\n"
    cause: BaseException | None = error
    # Two errors may name each other as their cause.
    seen: list[BaseException] = []
    while cause is not None and cause not in seen:
        seen.append(cause)
        yield f"\n{type(cause).__qualname__} raised through:\n"
        yield from traceback.format_list(traceback.extract_tb(cause.__traceback__))
        cause = cause.__cause__ or cause.__context__
