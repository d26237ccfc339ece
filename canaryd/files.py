"""Reading the files of a project, with a sentence where one cannot be read; writing a file whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from canaryd.errors import ConfigError, UsageError


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file of the project.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None


def read_text(path: Path) -> str:
    """Return the text of a file of the project.

    Raises:
        ConfigError: it cannot be read or is not UTF-8.
    """
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def require_replaceable(target: Path) -> None:
    """Refuse a target that is there and is no regular file: to replace a device, a pipe or a folder destroys it.

    Raises:
        UsageError: it is one.
    """
    if target.exists() and not target.is_file():
        raise UsageError(f"{target}: is no regular file and would be replaced by one; name another file")


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """Yield where to write what becomes the file `target` when the block has ended; a block that fails leaves nothing.

    Raises:
        UsageError: as `require_replaceable`.
    """
    require_replaceable(target)
    partial = target.with_name(f"{target.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
