"""What SIGHUP may change, and what it may not."""

from pathlib import Path

import pytest

from canaryd.daemon.reload import load, reload
from canaryd.errors import ConfigError

CONFIG = """
[schedule]
time_utc = "03:10"
attempts = 3
[[series]]
name = "main"
panel = "panel.jsonl"
[[series.arm]]
name = "tracked"
role = "tracked"
provider = "openai"
model = "m"
credential = "old_key"
concurrency = 4
params = { temperature = 0 }
[series.judge]
family = "f"
version = "1"
provider = "openai"
model = "judge"
credential = "judge_key"
timeout_s = 60
concurrency = 2
anchors = "anchors.jsonl"
"""
RESTART = "changed, which a running daemon does not take over; restart the daemon (systemctl restart canaryd)"
RESTORE = "changed, which a running daemon does not take over; restore it, or stop the daemon and register a new series"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("attempts = 3", "attempts = 5"),
        ('credential = "old_key"', 'credential = "new_key"'),
        ("concurrency = 4", "concurrency = 8\ntimeout_s = 30"),
        ('credential = "judge_key"\ntimeout_s = 60', 'credential = "other_key"\ntimeout_s = 30'),
        ("[schedule]", "[retry]\ncalls = 2\n[schedule]"),
        ("[[series.arm]]", '[series.notify]\nheartbeat_url = "https://here/x"\n[[series.arm]]'),
    ],
)
def test_the_pace_and_the_keys_may_change(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    before = load(path, log_level="info")
    assert old in CONFIG
    path.write_text(CONFIG.replace(old, new))
    after = reload(before)
    assert (after.config != before.config, after.text != before.text) == (True, True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('model = "m"', 'model = "m2"', f"toml: series 'main' arm 'tracked' (model) {RESTORE}"),
        ("temperature = 0", "temperature = 1", f"series 'main' arm 'tracked' (params) {RESTORE}"),
        ('model = "judge"', 'model = "other"', f"series 'main' judge (model) {RESTORE}"),
        ("anchors.jsonl", "others.jsonl", f"series 'main' judge (anchors) {RESTORE}"),
        ('panel = "panel.jsonl"', 'panel = "other.jsonl"', f"series 'main' (panel) {RESTORE}"),
        ('name = "main"', 'name = "other"', f"series 'main' (taken away), series 'other' (added) {RESTART}"),
        ('name = "tracked"', 'name = "now"', f"arm 'now' (added), series 'main' arm 'tracked' (taken away) {RESTORE}"),
        ('"03:10"', '"04:10"', f"schedule.time_utc {RESTORE}"),
        ("[schedule]", '[store]\nurl = "sqlite:///other.db"\n[schedule]', f"toml: store.url {RESTART}"),
        ("[schedule]", '[daemon]\nlisten = "127.0.0.1:9"\n[schedule]', f"toml: daemon.listen {RESTART}"),
        (
            '[schedule]\ntime_utc = "03:10"',
            '[daemon]\nlisten = "127.0.0.1:9"\n[schedule]\ntime_utc = "04:10"',
            "restore schedule.time_utc, or stop the daemon and register a new series; for daemon.listen restart",
        ),
        ("attempts = 3", "attempts = 0", "attempts"),
        ("[schedule]", "[schedule", "config.toml"),
        (
            "[[series.arm]]",
            '[series.notify]\nheartbeat_url = "hc-ping.com/x"\n[[series.arm]]',
            "heartbeat_url must be http:// or https://",
        ),
    ],
)
def test_what_was_registered_may_not(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    before = load(path, log_level="info")
    assert old in CONFIG
    path.write_text(CONFIG.replace(old, new))
    with pytest.raises(ConfigError) as refused:
        reload(before)
    assert said in str(refused.value)


def test_a_series_that_was_registered_since_takes_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    before = load(path, log_level="info")
    path.write_text(CONFIG + CONFIG[CONFIG.index("[[series]]") :].replace('"main"', '"third"'))
    with pytest.raises(ConfigError) as refused:
        reload(before)
    assert str(refused.value) == f"{path}: series 'third' (added) {RESTART}"
