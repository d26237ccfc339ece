"""Sentinels from the burst to the exit code: they watch the tracked arm and change no number."""

from __future__ import annotations

import csv
import os
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from canaryd import status
from canaryd.analysis import Evidence, load_subject
from canaryd.compare.rows import Row
from canaryd.compare.side import build_side
from canaryd.config import Budget
from canaryd.errors import Locked, MeasurementRefused, UsageError
from canaryd.metrics.queries import slot_figures
from canaryd.providers.base import ProviderError
from canaryd.records import Ask, GraderSpec, Reply
from canaryd.report.accounting import read_accounts
from canaryd.report.where import read_where
from canaryd.runner.burst import take_burst
from canaryd.runner.deviating import accept, accept_equivalent, drift_of
from canaryd.runner.grading import needs_sandbox
from canaryd.status.build import series_status
from canaryd.status.load import series_records
from canaryd.store import harness, read, samples, sentinels
from canaryd.store.flat import export_csv
from canaryd.store.lease import LeasePolicy, acquire_lease
from canaryd.store.process import this_process
from canaryd.store.rows import Span


def good(ask: Ask, times: int = 0) -> Reply:
    if ask.item_id == "pre-flight":
        return Reply("<answer>ok</answer>", "stop")
    number = int(ask.item_id[1:])
    return Reply(f"<answer>{number if ask.item_id[0] == 's' else 2 * number}</answer>", "stop", output_tokens=10)


def failing(*items: str) -> Any:
    return lambda ask, n: Reply("<answer>-1</answer>", "stop", output_tokens=10) if ask.item_id in items else good(ask)


def shown(world: Any) -> Any:
    with world.store.read() as connection:
        records = series_records(connection, read.series(connection, "s"), policy=world.policy)
    return series_status(records, world.clock.now())


def check(world: Any) -> tuple[int, str, tuple[str, ...]]:
    checked = status.check_status(status.Status("0", "store", world.clock.now(), "system", (shown(world),)))
    return checked.exit_code, checked.series[0].reason, checked.series[0].sentinels_moved


def begun(make_world: Any, **changes: Any) -> Any:
    """A world whose two sentinels have a burst of 80 samples each."""
    world = make_world(**{"sentinels": 2, "roles": ("tracked", "control"), **changes})
    world.answers["tracked"] = good
    take_burst(world.slot(world.at(0)), samples=80)
    world.asked.clear()
    return world


def test_the_burst_is_taken_once_before_day_1_from_the_tracked_arm(make_world: Any) -> None:
    world = make_world(sentinels=2)
    taken = take_burst(world.slot(world.at(0)), samples=80)
    assert [(burst.item_id, burst.n, burst.total) for burst in taken] == [("s0", 80, 80.0), ("s1", 80, 80.0)]
    assert (len(world.asked), {ask.arm for ask in world.asked}) == (161, {"tracked"}), "and the trivial task"
    with pytest.raises(UsageError, match="has its burst already"):
        take_burst(world.slot(world.at(0)), samples=80)
    with pytest.raises(UsageError, match="a burst is taken before day 1"):
        take_burst(world.slot(world.at(1)), samples=80)


def test_a_burst_with_a_failure_stores_nothing(make_world: Any) -> None:
    world = make_world(sentinels=1)
    world.answers["tracked"] = lambda ask, n: ProviderError("timeout", "late") if ask.replicate == 3 else good(ask)
    with pytest.raises(MeasurementRefused, match=r"1 of 80 samples of the burst failed \(timeout\)"):
        take_burst(world.slot(world.at(0)), samples=80)
    with world.store.read() as connection:
        assert sentinels.bursts(connection, "s") == {}


def test_a_burst_stands_behind_the_same_checks_as_a_run(make_world: Any) -> None:
    world = make_world(sentinels=1)
    world.answers["tracked"] = lambda ask, n: ProviderError("auth", "no such key")
    with pytest.raises(
        MeasurementRefused, match=r"not taken: canary_failed: auth: no such key; check the key"
    ) as refused:
        take_burst(world.slot(world.at(0)), samples=80)
    assert (refused.value.reason, len(world.asked)) == ("canary_failed", 1)


def test_nobody_takes_a_burst_while_another_process_holds_the_series(make_world: Any) -> None:
    world = make_world(sentinels=1)
    slot = world.slot(world.at(0))
    other = replace(this_process(), pid=os.getppid())
    policy = LeasePolicy(ttl=timedelta(seconds=90), is_alive=lambda holder: True)
    with patch("canaryd.runner.project.LEASE_POLICY", policy):
        acquire_lease(world.store, "s", holder=other, now=world.clock.now(), policy=policy)
        with pytest.raises(Locked, match=f"held by process {other.pid}"):
            take_burst(slot, samples=80)
    assert world.asked == []


def test_day_1_is_held_to_the_harness_of_the_burst(make_world: Any) -> None:
    world = make_world(sentinels=1, roles=("tracked",))
    world.tools = {"sdk": "1.0"}
    take_burst(world.slot(world.at(0)), samples=80)
    world.tools = {"sdk": "2.0"}
    world.measure(1)
    assert world.outcomes(1) == [("tracked", 1, "refused", "harness_drift: tool sdk: 1.0 -> 2.0")]
    slot = world.slot(world.at(1))
    accept_equivalent(slot, drift_of(slot), reason="the changelog names no change of a request")
    world.measure(1, hour=5)
    assert [(one.item_id, one.state) for one in shown(world).sentinels.each] == [("s0", "ok")]


def test_a_burst_is_the_baseline_of_the_epoch_in_which_it_was_taken_and_of_no_other(make_world: Any) -> None:
    world = begun(make_world, roles=("tracked",))
    world.measure(1)
    world.tools = {"sdk": "2.0"}
    slot = world.slot(world.at(2))
    accept(slot, drift_of(slot), reason="answers are given in words now")
    world.answers["tracked"] = failing("s0", "s1")
    world.measure(2)
    assert (shown(world).epoch, shown(world).sentinels.state) == (2, "warming_up")
    assert check(world)[:2] != (1, "sentinel")


def test_a_burst_with_which_nothing_could_move_is_refused(make_world: Any) -> None:
    world = make_world(sentinels=1)
    with pytest.raises(MeasurementRefused, match=r"sentinel 's0' could never move with a baseline of 10 and 4"):
        take_burst(world.slot(world.at(0)), samples=10)


def test_with_a_burst_sentinels_watch_from_day_1(make_world: Any) -> None:
    world = begun(make_world, sentinels=1)
    world.measure(1)
    assert [(one.item_id, one.state) for one in shown(world).sentinels.each] == [("s0", "ok")]
    world.answers["tracked"] = failing("s0")
    world.measure(2)
    assert shown(world).sentinels.each[0].state == "moved"
    assert check(world) == (1, "sentinel", ("s0",))
    sentence = (
        "the model under this alias likely changed - the sentinel s0 moved from 1.00 to 0.00, beyond the noise of this "
        "item (0.50-1.00 across 80 samples)"
    )
    assert sentence in status.as_text(status.Status("0", "store", world.clock.now(), "system", (shown(world),)))


def test_the_change_is_said_first_then_the_configuration_then_the_sentinel(make_world: Any) -> None:
    world = begun(make_world, items=12, sentinels=1, grid=(4, 4), roles=("tracked",), params={"top_p": 0.5})
    wrong = failing("s0", *(f"i{n}" for n in range(0, 12, 2)))
    for day in range(1, 13):
        if day == 5:
            world.answers["tracked"] = wrong
            world.config = replace(world.config, arms=(replace(world.config.arms[0], params={"top_p": 0.9}),))
        world.measure(day)
    world.decide(13)
    text = status.as_text(status.Status("0", "store", world.clock.now(), "system", (shown(world),)))
    sentences = (
        "declared regression of",
        "recorded configuration top_p: 0.5 -> 0.9",
        "tracked              delta",
        "the sentinel s0 moved",
    )
    places = [text.index(sentence) for sentence in sentences]
    assert places == sorted(places), text


def test_without_a_burst_the_baseline_days_are_the_baseline(make_world: Any) -> None:
    world = make_world(sentinels=1, grid=(20, 2), roles=("tracked",))
    world.answers["tracked"] = good
    for day in range(1, 22):
        world.measure(day)
        assert shown(world).sentinels.state == ("warming_up" if day <= 20 else "ok")
    assert shown(world).sentinels.each[0].baseline_samples == 80


@pytest.mark.parametrize("items", [("s0", "s1"), ("s0",)], ids=["together", "twice in a row"])
def test_a_collapse_is_two_together_or_one_twice(make_world: Any, items: tuple[str, ...]) -> None:
    world = begun(make_world)
    world.measure(1)
    world.answers["tracked"] = failing(*items)
    world.measure(2)
    assert shown(world).sentinels.state == ("collapsed" if len(items) == 2 else "moved")
    world.measure(3)
    assert shown(world).sentinels.state == "collapsed"
    assert check(world)[:2] == (1, "sentinel")


def test_errored_replicates_leave_a_sentinel_unjudged(make_world: Any) -> None:
    world = begun(make_world)
    world.answers["tracked"] = lambda ask, n: (
        ProviderError("timeout", "late") if ask.item_id == "s0" and ask.replicate > 0 else good(ask)
    )
    world.measure(1)
    world.answers["tracked"] = good
    world.at(2, 0, 5)
    world.decide(2)
    states = {one.item_id: one.state for one in shown(world).sentinels.each}
    assert states == {"s0": "unjudged", "s1": "ok"}
    assert check(world)[:2] == (2, "sentinel_unjudged")


def test_an_unjudged_sentinel_is_not_a_pass(make_world: Any) -> None:
    world = begun(make_world)
    world.answers["tracked"] = lambda ask, n: (
        Reply("", "stop") if ask.item_id == "s0" and ask.replicate > 0 else good(ask)
    )
    world.measure(1)
    assert check(world)[:2] == (2, "sentinel_unjudged")


def test_a_missed_slot_is_unjudged(make_world: Any) -> None:
    world = begun(make_world)
    world.measure(1)
    world.decide(3)
    assert (shown(world).sentinels.slot_date, shown(world).sentinels.state) == (world.at(2), "unjudged")


#: What the table says stays the same, and where a verdict keeps it.
EXCLUDED = {
    "delta": lambda c: c["window"]["estimate"]["delta"],
    "SE": lambda c: c["window"]["estimate"]["se_used"],
    "day leg": lambda c: c["window"]["estimate"]["day"],
    "attribution": lambda c: c["controls"]["control"]["window"]["estimate"],
    "MDE": lambda c: c["mde"],
    "tokens": lambda c: c["arms"]["tracked"]["tokens"],
    "headroom": lambda c: c["arms"]["tracked"]["headroom"],
    "item share": lambda c: c["window"]["estimate"]["items_paired"] / c["panel_items"],
    "window error rate": lambda c: (c["window"]["attempts"], c["window"]["errors"]),
    "outcome failures": lambda c: c["arms"]["tracked"]["outcomes"],
}


@pytest.fixture
def pair(make_world: Any) -> Any:
    """The same series with two sentinels that fail from day 5 on, and without any."""

    worlds = [make_world(name=name, items=12, sentinels=n, grid=(4, 4)) for name, n in (("s", 2), ("bare", 0))]
    for day in range(1, 9):
        for world in worlds:
            world.answers["tracked"] = failing("i1")
            if day > 4:
                world.answers["tracked"] = lambda ask, n: (
                    ProviderError("timeout", "no answer") if ask.item_id == "s1" else failing("i1", "s0")(ask, n)
                )
            world.measure(day)
    for world in worlds:
        world.decide(9)
    return worlds


def clauses_of(world: Any) -> Any:
    with world.store.read() as connection:
        return read.verdicts(connection, world.name)[-1].verdict.clauses


def test_sentinels_and_their_failures_change_no_number(pair: Any) -> None:
    watched, bare = map(clauses_of, pair)
    for row, figure in EXCLUDED.items():
        assert figure(watched) == figure(bare), row
    assert watched["sentinels_excluded"] == 2
    assert "sentinels_excluded" not in bare, "silent at zero"


def test_families_and_the_scores_of_a_run_do_not_see_them(pair: Any) -> None:
    found = []
    for world in pair:
        with world.store.read() as connection:
            where = read_where(connection, world.name, verdicts=read.verdicts(connection, world.name))
            figures = slot_figures(connection, world.name, arm="tracked", slot_date=world.at(8))
        found.append((where.families, where.targets, figures.scored, figures.score_total, figures.token_means))
    assert found[0] == found[1]
    assert found[0][2:4] == (12, 11.0)


def test_the_comparison_of_two_exports_and_its_mcnemar_do_not_see_them(pair: Any) -> None:
    tables = []
    for world in pair:
        with world.store.read() as connection:
            header, *lines = csv.reader(export_csv(connection, world.name, with_texts=False))
        rows = [Row(str(n), dict(zip(header, cells, strict=True))) for n, cells in enumerate(lines)]
        tables.append([row for row in rows if row.values["arm"] == "tracked"])
    watched, bare = (build_side(rows, names={}) for rows in tables)
    assert len(tables[0]) - len(tables[1]) == watched.sentinels == 64, "the export holds them"
    assert (watched.answers, bare.sentinels) == (bare.answers, 0)


def test_the_report_accounts_for_them(pair: Any) -> None:
    accounts = []
    for world in pair:
        with world.store.read() as connection:
            accounts.append(read_accounts(connection, read.series(connection, world.name))[0])
    watched, bare = accounts
    assert (watched.owed - bare.owed, watched.scored - bare.scored, watched.failures) == (64, 48, {"timeout": 16})


def test_one_that_runs_a_program_makes_the_sandbox_part_of_the_preflight(make_world: Any) -> None:
    (watching,) = make_world(items=0, sentinels=1).panel.items
    assert not needs_sandbox([watching])
    assert needs_sandbox([replace(watching, grader=GraderSpec("code", {"entry": "double"}))])


@pytest.mark.parametrize("stream", ["score", "tokens", "difference"])
def test_the_early_warning_does_not_see_them(pair: Any, stream: Any) -> None:
    tables = []
    for world in pair:
        with world.store.read() as connection:
            evidence = Evidence(connection, load_subject(connection, world.name))
            tables.append(evidence.day_table(stream, first=world.at(1), last=world.at(8)))
    watched, bare = tables
    assert watched.days == bare.days
    assert (watched.mean == bare.mean).all()
    assert watched.mean.shape == (8, 12)


def test_they_count_as_calls_samples_and_failures_and_stand_in_the_status(pair: Any) -> None:
    world, _ = pair
    day = world.at(8)
    with world.store.read() as connection:
        tally = samples.tally(connection, Span("s", "tracked", day, day))
        spent = harness.spending(connection, "s", first=day, last=day)["tracked", day]
    assert (tally.samples, tally.failures, spent.calls) == (20, {"timeout": 4}, 24)
    assert {(one.item_id, one.state) for one in shown(world).sentinels.each} == {
        ("s0", "ok"),
        ("s1", "unjudged"),
    }


def test_they_are_planned_in_the_budget(make_world: Any) -> None:
    world = make_world(items=6, sentinels=1, roles=("tracked",), budget=Budget(calls_per_day=9))
    world.measure(1)
    assert world.outcomes(1)[0][3] == "budget: calls_per_day is 9, 0 are used up and 10 more are needed"


def test_what_a_burst_used_up_counts_even_where_it_failed(make_world: Any) -> None:
    world = make_world(items=6, sentinels=1, roles=("tracked",), budget=Budget(calls_per_month=100))
    slot_date = world.at(0)
    world.answers["tracked"] = lambda ask, n: (
        good(ask)
        if ask.item_id == "pre-flight"
        else ProviderError("refusal" if ask.replicate == 3 else "timeout", "no")
    )
    with pytest.raises(MeasurementRefused, match="nothing was stored"):
        take_burst(world.slot(slot_date), samples=40)
    asked = len(world.asked)
    assert asked > 40
    with world.store.read() as connection:
        used = sentinels.burst_spending(connection, "s", first=slot_date, last=slot_date)
    assert used["tracked", slot_date].calls == asked
    with pytest.raises(MeasurementRefused, match=f"calls_per_month is 100, {asked} are used up and 41 more are needed"):
        take_burst(world.slot(slot_date), samples=40)


def test_a_burst_that_the_budget_does_not_cover_asks_nothing(make_world: Any) -> None:
    world = make_world(items=6, sentinels=2, roles=("tracked",), budget=Budget(calls_per_day=100))
    with pytest.raises(MeasurementRefused, match="calls_per_day is 100, 0 are used up and 161 more are needed"):
        take_burst(world.slot(world.at(0)), samples=80)
    assert world.asked == []
