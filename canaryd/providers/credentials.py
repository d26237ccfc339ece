"""Where a key comes from: a systemd credential, a file named in the configuration, or the environment if allowed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from canaryd.config import Credentials
from canaryd.errors import CredentialsError
from canaryd.providers.secret import Secret


def find_secret(name: str, credentials: Credentials, *, env: Mapping[str, str]) -> Secret:
    """Return the key called `name`, from the first place that has it.

    The order is `$CREDENTIALS_DIRECTORY/NAME`, `$CANARYD_CREDENTIALS_DIR/NAME` (what `--credentials-dir` says),
    `NAME_file` of the configuration, and, where the configuration allows the environment, the file named by
    `$NAME_FILE` (in capitals) and `$NAME` itself.

    Raises:
        CredentialsError: no place has it, or a file that was named cannot be read.
    """
    variable = name.upper().replace("-", "_")
    for directory in filter(None, map(env.get, ("CREDENTIALS_DIRECTORY", "CANARYD_CREDENTIALS_DIR"))):
        if (Path(directory) / name).is_file():
            return _from_file(Path(directory) / name, name)
    if name in credentials.files:
        return _from_file(Path(credentials.files[name]), name)
    if credentials.allow_env and env.get(f"{variable}_FILE"):
        return _from_file(Path(env[f"{variable}_FILE"]), name)
    if credentials.allow_env and env.get(variable):
        return Secret(env[variable].strip(), source=f"${variable}")
    ways = [
        f"a systemd credential {name}",
        f"a file {name} in --credentials-dir",
        f'{name}_file = "PATH" in [credentials]',
    ]
    if credentials.allow_env:
        ways.append(f"${variable} or ${variable}_FILE")
    unread = (
        "" if credentials.allow_env or variable not in env else f" (${variable} is not read without allow_env = true)"
    )
    raise CredentialsError(f"there is no key {name!r}{unread}; give it as {', as '.join(ways)}")


def _from_file(path: Path, name: str) -> Secret:
    try:
        text, why = path.read_text().strip(), None
    except OSError as error:
        text, why = "", error.strerror
    except UnicodeDecodeError:
        text, why = "", "it is not text"
    # Raised outside of the handlers: a decoding error carries the bytes of the file.
    if why is not None:
        raise CredentialsError(f"the key {name!r} cannot be read from {path} ({why}); check the path and its owner")
    return Secret(text, source=str(path))
