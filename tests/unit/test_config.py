"""The configuration is refused, not repaired: one bad file per rule, with its exact message."""

import re
from pathlib import Path

import pytest

from canaryd.config import parse
from canaryd.errors import ConfigError

ROOT = Path(__file__).parents[2]
PLAIN = """\
[store]
url = "sqlite:///data/c.db"
[schedule]
time_utc = "03:10"
[[series]]
name = "main"
panel = "p.jsonl"
[[series.arm]]
name = "t"
role = "tracked"
provider = "openai"
model = "m"
params = { max_tokens = 5 }
[[series.arm]]
name = "c"
role = "control"
provider = "openai"
model = "m2"
timeout_s = 5
"""


def test_a_plain_file_is_read_with_paths_from_its_folder(tmp_path: Path) -> None:
    config = parse(PLAIN, path=tmp_path / "config.toml")
    series = config.one_series(None)
    assert config.store_url == f"sqlite:///{tmp_path}/data/c.db"
    assert series.panel == tmp_path / "p.jsonl"
    assert (series.tracked.name, series.tracked.params) == ("t", {"max_tokens": 5})
    assert series.arms[1].timeout_s == 5.0
    assert config.schedule.due_minute == 190


def test_the_example_is_valid() -> None:
    text = (ROOT / "config.example.toml").read_text()
    assert len(parse(text, path=ROOT / "config.example.toml").series[0].arms) == 2


def test_the_example_is_valid_with_every_key_that_it_comments_out(tmp_path: Path) -> None:
    text = (ROOT / "config.example.toml").read_text()
    # A budget in money wants a price of each model, and the example has one.
    config = parse(re.sub(r"^# (?=\[|(?!money_)\w+ +=)", "", text, flags=re.MULTILINE), path=tmp_path / "config.toml")
    service, series = config.service, config.series[0]
    said = (
        service.webhook,
        service.backup,
        service.export,
        series.judge,
        series.heartbeat_url,
        config.retain_texts_days,
    )
    assert None not in said
    assert series.judge is not None
    assert (series.budget.calls_per_day, series.judge.config.arm.requests_per_minute) == (500, 60)


def test_a_misspelt_list_is_named_where_there_is_no_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^config.toml:5: serie is unknown; did you mean series\?"):
        parse(PLAIN.replace("[[series", "[[serie"), path=tmp_path / "config.toml")


@pytest.mark.parametrize("table", ["[store]", "[schedule]", "[retry]", "[credentials]", "[daemon]", "[demo]"])
def test_a_table_needs_no_other_beside_it(table: str, tmp_path: Path) -> None:
    body = PLAIN[PLAIN.index("[[series]]") :]
    assert parse(f"{table}\n{body}", path=tmp_path / "config.toml").one_series(None).name == "main"


BAD = [
    ("url = \"sqlite:///data/c.db\"", "url = \"sqlite:///data/c.db\"\nretain_texts_days = 0",
     "config.toml:3: store.retain_texts_days is 0, but must be between 1 and 36500"),
    ("provider = \"openai\"\nmodel = \"m2\"", "provder = \"openai\"\nmodel = \"m2\"",
     "config.toml:17: series[0].arm[1].provder is unknown; did you mean provider? It is missing here"),
    ("timeout_s = 5", "timeout = 5",
     "config.toml:19: series[0].arm[1].timeout is unknown; did you mean timeout_s? Allowed here: base_url,"),
    ("timeout_s = 5", "timeout_s = 0",
     "config.toml:19: series[0].arm[1].timeout_s is 0.0, but must be between 0.1 and 3600"),
    ("timeout_s = 5", "timeout_s = true",
     "config.toml:19: series[0].arm[1].timeout_s is true, but must be a number"),
    ("provider = \"openai\"\nmodel = \"m2\"", "model = \"m2\"",
     "config.toml: series[0].arm[1].provider is required; add it as a text (\"...\")"),
    ("model = \"m2\"", "model = \"m2\"\nexpect_resolved = \"\"",
     "config.toml:19: series[0].arm[1].expect_resolved is '', but must not be empty"),
    ("role = \"control\"", "role = \"tracked\"",
     "config.toml: series[0].arm needs exactly one arm with role = \"tracked\" in series 'main', there are 2"),
    ("name = \"c\"", "name = \"t\"", "config.toml: series[0].arm names two arms 't' in series 'main'; rename one"),
    ("name = \"c\"", "name = \"C c\"", "config.toml:15: series[0].arm[1].name is 'C c', but must be 1 to 63 small"),
    ("max_tokens = 5", "max_tokn = 5", "config.toml:13: series[0].arm[0].params.max_tokn is unknown; allowed request"),
    ("max_tokens = 5", "max_tokens = -5",
     "config.toml:13: series[0].arm[0].params.max_tokens is -5, but must be a whole number from 1 on"),
    ("max_tokens = 5", "temperature = \"hot\"",
     "config.toml:13: series[0].arm[0].params.temperature is 'hot', but must be a number from 0 on"),
    ("max_tokens = 5", "top_p = 1.5", "config.toml:13: series[0].arm[0].params.top_p is 1.5, but must be a num"),
    ("max_tokens = 5", "json_mode = 1", "config.toml:13: series[0].arm[0].params.json_mode is 1, but must be true or"),
    ("\"03:10\"", "\"02:30 Europe/Berlin\"",
     "config.toml:4: schedule.time_utc is '02:30 Europe/Berlin', but must be \"HH:MM\" in UTC: slots are UTC dates,"),
    ("sqlite:///data/c.db", "mysql://x", "config.toml:2: store.url must begin with sqlite:/// or postgresql://"),
    ("sqlite:///data/c.db", "mysql://me:pw@h/d", "config.toml:2: store.url must begin with sqlite:///"),
    ("sqlite:///data/c.db", "host=h password=pw", "config.toml:2: store.url must begin with sqlite:///"),
    ("sqlite:///data/c.db", "postgresql://me:pw@h/d", "config.toml:2: store.url holds a password; use peer"),
    ("sqlite:///data/c.db", "postgresql:///d?password=pw", "config.toml:2: store.url holds a password; use peer"),
    ("sqlite:///data/c.db", "postgresql://me@h:pl/d", "config.toml:2: store.url has a host or a port that is none"),
    ("sqlite:///data/c.db", "postgresql://[h/d", "config.toml:2: store.url has a host or a port that is none"),
    ("sqlite:///data/c.db", "postgresql://me:p/w@h/d", "config.toml:2: store.url holds a password; use peer"),
    ("sqlite:///data/c.db", "postgresql://me:pw@x@h/d", "config.toml:2: store.url holds a password; use peer"),
    ("model = \"m2\"", "model = \"sk-abc\"", "config.toml:18: a literal key stands in this file; put it in a file"),
    ("panel = \"p.jsonl\"", "panel = \"p.jsonl\"\nbudget = { calls_per_week = 3 }",
     "config.toml:8: series[0].budget.calls_per_week is unknown; allowed here: calls_per_day, calls_per_month,"),
    ("panel = \"p.jsonl\"", "panel = \"p.jsonl\"\nbudget = { calls_per_day = 0 }",
     "config.toml:8: series[0].budget.calls_per_day is 0, but must be between 1 and 1e+09"),
    ("panel = \"p.jsonl\"", "panel = \"p.jsonl\"\nbudget = { money_per_month = 9 }",
     "config.toml: series 'main' has a budget in money, but there is no price of 'm' on 'openai' (arm 't');"),
    ("[[series]]", "[[price]]\nprovider = \"openai\"\nmodel = \"m\"\nfrom = \"2027\"\n[[series]]",
     "config.toml:8: price[0].from is '2027', but must be a date (2027-01-31, without quotes)"),
    ("[schedule]", "[schedule", "config.toml:3: this is not valid TOML"),
    ("[schedule]", "[shedule]", "config.toml:3: shedule is unknown; did you mean schedule?"),
    ("[schedule]", "[webhok]", "config.toml:3: webhok is unknown; did you mean webhook?"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=[message.split(" ", 1)[1][:40] for *_, message in BAD])
def test_bad_files(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in PLAIN
    with pytest.raises(ConfigError) as caught:
        parse(PLAIN.replace(old, new, 1), path=tmp_path / "config.toml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_budgets_and_dated_prices_are_read(tmp_path: Path) -> None:
    price = """
[[price]]
provider = "openai"
model = "{}"
from = 2027-01-01
input_per_million = 1
output_per_million = 2.5
"""
    text = PLAIN.replace('panel = "p.jsonl"', 'panel = "p.jsonl"\nbudget = { money_per_day = 2 }')
    config = parse(text + price.format("m") + price.format("m2"), path=tmp_path / "config.toml")
    assert config.series[0].budget.money_per_day == 2.0
    assert (config.prices[1].model, config.prices[1].output_per_million) == ("m2", 2.5)
