"""Where a key may come from, in which order, and what is said when there is none."""

from pathlib import Path

import pytest

from canaryd.config import Credentials
from canaryd.errors import CredentialsError
from canaryd.providers.credentials import find_secret

KEY = "sk-from-"


def test_the_first_place_wins(tmp_path: Path) -> None:
    systemd, named, listed = tmp_path / "openai", tmp_path / "file", tmp_path / "listed"
    for path, text in [(systemd, "systemd"), (named, "config"), (listed, "env-file")]:
        path.write_text(f"{KEY}{text}\n")
    env = {"CREDENTIALS_DIRECTORY": str(tmp_path), "OPENAI_FILE": str(listed), "OPENAI": f"{KEY}env"}
    both = Credentials(allow_env=True, files={"openai": str(named)})
    assert find_secret("openai", both, env=env).reveal() == f"{KEY}systemd"
    systemd.unlink()
    flagged = tmp_path / "flagged" / "openai"
    flagged.parent.mkdir()
    flagged.write_text(f"{KEY}flag")
    env["CANARYD_CREDENTIALS_DIR"] = str(flagged.parent)
    assert find_secret("openai", both, env=env).reveal() == f"{KEY}flag"
    systemd.write_text(f"{KEY}systemd")
    assert find_secret("openai", both, env=env).reveal() == f"{KEY}systemd"
    systemd.unlink()
    flagged.unlink()
    assert find_secret("openai", both, env=env).reveal() == f"{KEY}config"
    assert find_secret("openai", Credentials(allow_env=True), env=env).reveal() == f"{KEY}env-file"
    del env["OPENAI_FILE"]
    assert find_secret("openai", Credentials(allow_env=True), env=env).reveal() == f"{KEY}env"


def test_the_environment_must_be_allowed() -> None:
    with pytest.raises(CredentialsError, match="there is no key 'openai'; give it as a systemd credential openai, as"):
        find_secret("openai", Credentials(), env={})
    with pytest.raises(CredentialsError, match=r"no key 'openai' \(\$OPENAI is not read without allow_env = true\)"):
        find_secret("openai", Credentials(), env={"OPENAI": f"{KEY}env"})


def test_a_file_that_cannot_be_read_is_named_without_its_content(tmp_path: Path) -> None:
    broken = tmp_path / "key"
    broken.write_bytes(b"sk-\xff\xfe-secret")
    for path, why in [(tmp_path / "none", "No such file"), (broken, "it is not text")]:
        with pytest.raises(CredentialsError, match=why) as caught:
            find_secret("openai", Credentials(files={"openai": str(path)}), env={})
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None
