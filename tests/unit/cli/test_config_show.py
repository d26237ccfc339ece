"""`canaryd config show` says where each value comes from, and of each key its place and the end of its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from canaryd.cli import cli
from canaryd.cli.keys import key_warning, keys_of
from canaryd.config import parse

KEY = "zq-7f3e9a1c5b"
CONFIG = """\
[credentials]
allow_env = true
filed_file = "key.txt"
[daemon]
listen = "127.0.0.1:9999"
[[series]]
name = "main"
panel = "p.jsonl"
notify = { heartbeat_url = "https://ping.example/3f2a-77" }
[[series.arm]]
name = "a"
role = "tracked"
provider = "openai"
model = "m"
credential = "planted"
params = { max_tokens = 64 }
[[series.arm]]
name = "b"
role = "control"
provider = "openai"
model = "m"
credential = "filed"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a configuration whose keys are in the environment and in a file."""
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    (tmp_path / "key.txt").write_text(KEY)
    for name in ("CREDENTIALS_DIRECTORY", "CANARYD_CREDENTIALS_DIR", "PLANTED_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PLANTED", KEY)
    return path


def test_each_value_has_its_origin(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CliRunner().invoke(cli, ["config", "show", "--config", str(config)]).stdout.splitlines()
    assert shown[0] == f"# {config} (from --config)"
    for line in (
        "series[0].name = 'main'  # config.toml:7",
        "series[0].arm[0].params.max_tokens = 64  # config.toml:16",
        "credentials.filed_file = 'key.txt'  # config.toml:3",
        "daemon.listen = '127.0.0.1:9999'  # config.toml:5",
        "daemon.log_level = 'info'  # default",
        "series[0].seed = 1  # default",
    ):
        assert line in shown
    monkeypatch.setenv("CANARYD_DAEMON_LISTEN", "127.0.0.1:1")
    monkeypatch.setenv("CANARYD_CREDENTIALS_DIR", "/keys")
    monkeypatch.setenv("CANARYD_CONFIG", str(config))
    shown = CliRunner().invoke(cli, ["config", "show"]).stdout.splitlines()
    assert shown[:2] == [
        f"# {config} (from $CANARYD_CONFIG)",
        "credentials_dir = '/keys'  # environment: $CANARYD_CREDENTIALS_DIR, or --credentials-dir",
    ]
    assert "daemon.listen = '127.0.0.1:1'  # environment: $CANARYD_DAEMON_LISTEN, for the daemon" in shown


def test_an_address_that_is_a_key_shows_its_host_only(config: Path) -> None:
    shown = CliRunner().invoke(cli, ["config", "show", "--config", str(config)]).stdout
    assert "heartbeat_url = 'https://ping.example/***'  # config.toml:9" in shown
    assert "3f2a" not in shown


def test_a_key_of_the_environment_is_warned_of(config: Path) -> None:
    loaded = parse(CONFIG, path=config)
    keys = keys_of(loaded, loaded.series)
    assert [(name, key.source) for name, key in keys.items()] == [
        ("filed", str(config.parent / "key.txt")),
        ("planted", "$PLANTED"),
    ]
    assert key_warning("filed", keys["filed"]) is None
    done = CliRunner().invoke(cli, ["config", "check", "--config", str(config)])
    assert done.stderr.startswith("warning: the key 'planted' is taken from the environment ($PLANTED)")
    assert KEY not in done.output


def test_doctor_shows_place_and_end_of_the_digest(config: Path) -> None:
    CliRunner().invoke(cli, ["db", "upgrade", "--config", str(config)])
    said = CliRunner().invoke(cli, ["doctor", "--config", str(config)]).stdout
    ends = hashlib.sha256(KEY.encode()).hexdigest()[-4:]
    assert f"ok    key          filed from {config.parent / 'key.txt'}, SHA-256 ends in {ends}\n" in said
    assert f"planted from $PLANTED, SHA-256 ends in {ends}\n      warning: the key 'planted' is taken from" in said
    assert KEY not in said
