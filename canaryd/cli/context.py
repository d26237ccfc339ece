"""What every command needs first: which configuration file it obeys."""

from __future__ import annotations

import os
from pathlib import Path

from canaryd.config import Config, parse
from canaryd.errors import ConfigError
from canaryd.files import read_text
from canaryd.messages import detail


def find_config(flag: str | None) -> Path:
    """Return the configuration file: the flag, $CANARYD_CONFIG, then the usual folders; the first one wins.

    Raises:
        ConfigError: there is none, or the one that was named does not exist.
    """
    named = flag or os.environ.get("CANARYD_CONFIG")
    if named:
        if not Path(named).is_file():
            raise ConfigError(f"{named}: there is no such configuration file; `canaryd init DIR` writes one")
        return Path(named)
    folders = [
        Path(folder) if folder else None
        for folder in (os.environ.get("CONFIGURATION_DIRECTORY"), os.environ.get("XDG_CONFIG_HOME"))
    ]
    candidates = [
        folders[0] and folders[0] / "config.toml",
        (folders[1] or Path.home() / ".config") / "canaryd" / "config.toml",
        Path("/etc/canaryd/config.toml"),
    ]
    for candidate in candidates:
        if candidate and candidate.is_file():
            return candidate
    looked = ", ".join(str(candidate) for candidate in candidates if candidate)
    raise ConfigError(
        f"there is no configuration (looked for {looked}); name one with --config FILE or $CANARYD_CONFIG, "
        "or write a project with `canaryd init DIR`"
    )


def load_config(flag: str | None) -> Config:
    """Return the parsed configuration.

    Raises:
        ConfigError: there is none, it cannot be read, or a key in it is refused.
    """
    path = find_config(flag)
    detail(f"the configuration is {path.resolve()}")
    return parse(read_text(path), path=path)
