"""An unexpected error leaves a file with the traceback's places, and nothing of the values that were in play."""

from __future__ import annotations

import os
import tempfile
import traceback

from canaryd import __version__


def write_crash_file(error: BaseException) -> str:
    """Return the path of a new private file with the error's class and the code lines it came through.

    The error's text and every local value stay out, since either may hold a key, a prompt or an answer.
    """
    handle, path = tempfile.mkstemp(prefix="canaryd-crash-", suffix=".txt")
    with os.fdopen(handle, "w") as file:
        file.write(f"canaryd {__version__}: {type(error).__module__}.{type(error).__qualname__}\n")
        cause: BaseException | None = error
        while cause is not None:
            file.write(f"\n{type(cause).__qualname__} raised through:\n")
            file.writelines(traceback.format_list(traceback.extract_tb(cause.__traceback__)))
            cause = cause.__cause__ or cause.__context__
    return path
