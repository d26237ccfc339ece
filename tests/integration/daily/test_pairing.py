"""A late catch-up of one arm alone counts for that arm, and pairs with nothing."""

from __future__ import annotations

from typing import Any

from canaryd.analysis import Evidence, load_subject
from canaryd.providers.base import ProviderError
from canaryd.records import Ask, Reply


def answers(ask: Ask) -> Reply:
    return Reply(f"<answer>{2 * int(ask.item_id[1:])}</answer>", "stop")


def overloaded(*items: str) -> Any:
    def answer(ask: Ask, _: int) -> Reply | ProviderError:
        return ProviderError("overloaded", "no") if ask.item_id in items else answers(ask)

    return answer


def apart(world: Any) -> Any:
    with world.store.read() as connection:
        return Evidence(connection, load_subject(connection, "s")).window(0).apart["control"]


def difference_cells(world: Any, day: int) -> int | None:
    """Return how many items of a day pair in the difference stream, None where the day is not usable."""
    with world.store.read() as connection:
        evidence = Evidence(connection, load_subject(connection, "s"))
        table = evidence.day_table("difference", first=world.at(1), last=world.at(9))
    rows = dict(zip(table.days, table.present.sum(axis=1).tolist(), strict=True))
    return rows.get(world.at(day))


def test_items_that_one_arm_caught_up_alone_pair_with_nothing(make_world: Any) -> None:
    world = make_world(items=10)
    world.answers["control"] = overloaded("i3")
    world.measure(1)
    world.answers.clear()
    world.measure(1, hour=9)
    assert [attempt for arm, attempt, *_ in world.outcomes(1) if arm == "control"] == [1, 2]
    assert apart(world) == {("i3", world.at(1))}
    assert difference_cells(world, 1) == 9
    with world.store.read() as connection:
        window = Evidence(connection, load_subject(connection, "s")).window(0)
    assert len(window.tracked.scores) == len(window.controls["control"].scores) == 10


def test_arms_that_catch_up_together_stay_paired(make_world: Any) -> None:
    world = make_world(items=10)
    world.answers |= {"control": overloaded("i3"), "tracked": overloaded("i4", "i5")}
    world.measure(1)
    world.answers.clear()
    world.measure(1, hour=9)
    assert apart(world) == frozenset()
    assert difference_cells(world, 1) == 10


def test_a_day_that_one_arm_made_up_for_alone_pairs_nothing(make_world: Any) -> None:
    world = make_world(items=10)
    world.answers["control"] = overloaded(*(f"i{n}" for n in range(10)))
    world.measure(1)
    world.answers.clear()
    world.measure(1, hour=9)
    world.measure(2)
    assert apart(world) == {(f"i{n}", world.at(1)) for n in range(10)}
    assert (difference_cells(world, 1), difference_cells(world, 2)) == (None, 10)
