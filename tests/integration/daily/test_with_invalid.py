"""What would have been said with invalid samples counted: shown beside what is stored, and stored nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from canaryd.analysis.with_invalid import WithInvalid, windows_with_invalid, with_invalid
from canaryd.cli import cli
from canaryd.records import Ask, Reply
from canaryd.runner.quarantine import set_aside
from canaryd.store import ledger, read
from canaryd.wording import spoken

HEADING = "with invalid samples counted (no verdict, nothing is stored of this)"
CONFIG = """
[store]
url = "{url}"
[[series]]
name = "s"
panel = "p.jsonl"
[[series.arm]]
name = "tracked"
role = "tracked"
provider = "simulated"
model = "large"
[[series.arm]]
name = "control"
role = "control"
provider = "simulated"
model = "small"
"""


def worse(ask: Ask, times: int = 0) -> Reply:
    number = int(ask.item_id[1:])
    return Reply(f"<answer>{2 * number if number % 2 else -1}</answer>", "stop")


@pytest.fixture
def world(make_world: Any) -> Any:
    """Return a series whose first window holds one bad day of the tracked arm, before anything is decided."""
    made = make_world(items=12, grid=(4, 4))
    for day in range(1, 9):
        made.answers = {"tracked": worse} if day == 8 else {}
        made.measure(day)
    return made


@pytest.fixture
def status(store_url: str, tmp_path: Path) -> Any:
    (tmp_path / "config.toml").write_text(CONFIG.format(url=store_url))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(cli, ["--config", str(tmp_path / "config.toml"), "status", *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def quarantine(world: Any) -> None:
    set_aside(world.store, "s", slot_date=world.at(8), arm="tracked", reason="a wrong key", now=world.clock.now())


def test_a_quarantined_slot_is_counted_again_and_nothing_is_stored(world: Any, status: Any) -> None:
    quarantine(world)
    (stored,) = world.decide(9)
    with world.store.read() as connection:
        before = ledger.head(connection, "s"), read.verdicts(connection, "s")
        found = with_invalid(connection, "s")
    assert stored.clauses["window"]["estimate"]["delta"] == 0
    assert found.invalid == {"operator": 12}
    assert found.delta == pytest.approx(-6 / 12 / 4), "six of twelve items are wrong on one of four days"
    assert found.ci_lower is not None
    assert found.ci_upper is not None
    assert found.ci_lower < found.delta < found.ci_upper
    text = status("--include-invalid")
    assert text.startswith(status().rstrip("\n")), "what is stored is shown as ever"
    heading, line = text.splitlines()[-2:]
    assert heading == HEADING
    assert found.verdict is not None
    assert line.startswith(f"  s: window 1 would be {spoken(found.verdict)}")
    assert "delta -12.5 points [" in line
    assert line.endswith("; invalid samples: 12 operator")
    with world.store.read() as connection:
        assert (ledger.head(connection, "s"), read.verdicts(connection, "s")) == before


def test_the_json_form_only_gains_a_key(world: Any, status: Any) -> None:
    quarantine(world)
    world.decide(9)
    plain, more = json.loads(status("--json")), json.loads(status("--json", "--include-invalid"))
    added = more.pop("with_invalid")
    assert more.keys() == plain.keys()
    assert more["series"][0]["window"] == plain["series"][0]["window"]
    assert added["stored"] is False
    (one,) = added["series"]
    assert (one["series"], one["window"], one["invalid"]) == ("s", 1, {"operator": 12})
    assert one["delta"] == pytest.approx(-0.125)


def test_with_the_slot_counted_it_is_what_was_said_before_it_was_set_aside(world: Any) -> None:
    (first,) = world.decide(9)
    quarantine(world)
    world.decide(9)
    with world.store.read() as connection:
        found = with_invalid(connection, "s")
        assert windows_with_invalid(connection, "s") == (found,)
    assert (found.verdict, found.direction, found.reasons) == (first.kind, first.direction, first.reasons)
    estimate = first.clauses["window"]["estimate"]
    assert (found.delta, [found.ci_lower, found.ci_upper]) == (
        pytest.approx(estimate["delta"]),
        pytest.approx(estimate["ci"]),
    )


def test_without_an_invalid_sample_it_says_so(world: Any, status: Any) -> None:
    with world.store.read() as connection:
        assert with_invalid(connection, "s") == WithInvalid("s")
    assert status("--include-invalid").endswith(f"{HEADING}\n  s: no window is decided yet\n")
    world.decide(9)
    with world.store.read() as connection:
        assert windows_with_invalid(connection, "s") == ()
    said = "  s: window 1 rests on no invalid sample, nothing would be otherwise\n"
    assert status("--include-invalid").endswith(f"{HEADING}\n{said}")
