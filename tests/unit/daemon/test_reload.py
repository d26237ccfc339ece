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
        ('model = "m"', 'model = "m2"', "series 'main' changed"),
        ("temperature = 0", "temperature = 1", "series 'main' changed"),
        ('model = "judge"', 'model = "other"', "series 'main' changed"),
        ("anchors.jsonl", "others.jsonl", "series 'main' changed"),
        ('panel = "panel.jsonl"', 'panel = "other.jsonl"', "series 'main' changed"),
        ('name = "main"', 'name = "other"', "the list of series"),
        ('"03:10"', '"04:10"', "schedule.time_utc changed"),
        ("[schedule]", '[store]\nurl = "sqlite:///other.db"\n[schedule]', "store.url changed"),
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
