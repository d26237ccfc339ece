"""Reading the files of a project, with a sentence where one cannot be read."""

from __future__ import annotations

from pathlib import Path

from canaryd.errors import ConfigError


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
