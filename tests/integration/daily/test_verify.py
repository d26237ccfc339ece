"""A series that was measured is derived again from its raw rows, on each database and from one to the other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from canaryd.providers.base import ProviderError
from canaryd.records import Ask, Reply
from canaryd.store import read
from canaryd.store.engine import open_store
from canaryd.store.transfer import export_jsonl, import_jsonl
from canaryd.verify import verify_export, verify_series

LATER = datetime(2027, 2, 1, tzinfo=UTC)


@pytest.fixture
def world(make_world: Callable[..., Any]) -> Any:
    """Six days: one answer is cut off, one call fails for good, and the model is worse from day 5."""
    world = make_world(items=8)

    def tracked(ask: Ask, _times: int) -> Reply | ProviderError:
        day, number = ask.slot_date.day, int(ask.item_id[1:])
        if (day, number) == (2, 3):
            return Reply("<answer>", "length", output_tokens=7)
        if (day, number) == (5, 4):
            return ProviderError("quota", "no more today")
        return Reply(f"<answer>{2 * number if day < 5 else -1}</answer>", "stop", output_tokens=10 + number + day % 2)

    world.answers["tracked"] = tracked
    for day in range(1, 7):
        world.measure(day)
    world.decide(7)
    return world


def test_every_number_comes_out_again(world: Any, tmp_path: Path) -> None:
    with world.store.read() as connection:
        verified = verify_series(connection, "s")
        lines = list(export_jsonl(connection, "s", with_texts=True))
        stored = [each.verdict for each in read.verdicts(connection, "s")]
    assert verified.verdicts == len(stored) == 2
    assert verified.early_warning_days > 0
    assert verify_export(lines, now=LATER) == verified
    with open_store(f"sqlite:///{tmp_path / 'elsewhere.db'}", create=True) as elsewhere:
        import_jsonl(elsewhere, lines, now=LATER)
        with elsewhere.read() as connection:
            assert [each.verdict for each in read.verdicts(connection, "s")] == stored
            assert verify_series(connection, "s") == verified
