"""What stands beside a verdict: events that coincide, outcome failures, headroom. None of it decides anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from canaryd import status
from canaryd.records import Ask, Reply
from canaryd.status.build import series_status
from canaryd.status.load import series_records
from canaryd.store import read, samples
from canaryd.store.epochs import Deviation, add_deviation
from canaryd.store.events import events
from canaryd.store.rows import Span
from canaryd.store.schema import run_report


def text_of(ask: Ask) -> str:
    return f"<answer>{'ok' if ask.item_id == 'pre-flight' else 2 * int(ask.item_id[1:])}</answer>"


def reply(ask: Ask, **changes: Any) -> Reply:
    return Reply(**{"text": text_of(ask), "stop": "stop", "input_tokens": 100, "output_tokens": 10, **changes})


def happened(world: Any, last: int) -> list[tuple[str, str, Any]]:
    with world.store.read() as connection:
        found = events(connection, "s", first=world.at(1), last=world.at(last))
    return [(event.slot_date.isoformat(), event.kind, event.detail) for event in found]


def shown(world: Any) -> Any:
    with world.store.read() as connection:
        records = series_records(connection, read.series(connection, "s"), policy=world.policy)
    return series_status(records, world.clock.now())


def text(world: Any) -> str:
    return status.as_text(status.Status("0", "store", world.clock.now(), "system", (shown(world),)))


def clauses(world: Any) -> Any:
    with world.store.read() as connection:
        return read.verdicts(connection, "s")[-1].verdict.clauses


def test_tokens_that_rest_on_fewer_items_than_the_scores_say_so(make_world: Any) -> None:
    world = make_world(items=12)
    world.answers["control"] = lambda ask, n: reply(ask)
    world.answers["tracked"] = lambda ask, n: reply(ask, output_tokens=None if ask.item_id in ("i0", "i1") else 10)
    for day in range(1, 5):
        world.measure(day)
    world.decide(5)
    lines = [line for line in text(world).splitlines() if "items 12/12" in line]
    assert [line.partition("items 12/12")[2].partition("headroom")[0].strip() for line in lines] == [
        "tokens +0 % [+0.0, +0.0] of 10 items",
        "tokens +0 % [+0.0, +0.0]",
    ]


def test_an_alternating_system_fingerprint_is_recorded_and_nothing_follows_from_it(make_world: Any) -> None:
    world = make_world()
    for day in range(1, 7):
        name = f"fp_{day % 2}"
        world.answers["tracked"] = lambda ask, n, name=name: reply(ask, system_fingerprint=name)
        world.measure(day)
    world.decide(7)
    assert happened(world, 7) == []
    with world.store.read() as connection:
        stored = samples.samples(connection, Span("s", "tracked", world.at(1), world.at(7)))
        assert read.alarms(connection, "s")[-1].state == "ok"
    assert {(each.key.slot_date.day % 2, each.system_fingerprint) for each in stored} == {(0, "fp_0"), (1, "fp_1")}


def test_a_rolled_model_is_a_dated_event_beside_the_verdict_and_decides_nothing(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    for day in range(1, 7):
        name = "m-0101" if day < 5 else "m-0505"
        world.answers["tracked"] = lambda ask, n, name=name: reply(ask, resolved_model=name, standing="reported")
        world.measure(day)
    world.decide(7)
    assert happened(world, 7) == [("2027-01-05", "model_roll", {"before": ["m-0101"], "after": ["m-0505"]})]
    window = shown(world).window
    assert (window.index, window.verdict) == (2, "no_change_detected")
    said = "tracked: the model that answered rolled from m-0101 to m-0505"
    assert said in [one.text for one in window.coincides_with]
    assert f"coincides with: 2027-01-05, {said}" in text(world)
    arm = window.arms[0]
    assert (arm.resolved_models, arm.resolved_standing) == (("m-0505",), ("reported",))


@pytest.mark.parametrize(
    ("resolved", "standing"), [("model-tracked", "echo"), (None, "not_reported")], ids=["echo", "not reported"]
)
def test_a_name_that_identifies_nothing_never_rolls(make_world: Any, resolved: str | None, standing: str) -> None:
    world = make_world(roles=("tracked",))
    for day in range(1, 6):
        world.answers["tracked"] = lambda ask, n: reply(ask, resolved_model=resolved, standing=standing)
        world.measure(day)
    assert happened(world, 5) == []
    window = shown(world).window
    assert (window.arms[0].resolved_models, window.arms[0].resolved_standing) == ((), (standing,))


def test_two_models_that_take_turns_roll_once(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    for day in range(1, 6):
        world.answers["tracked"] = lambda ask, n: reply(
            ask, resolved_model=f"m-{int(ask.item_id[1:]) % 2}", standing="reported"
        )
        world.measure(day)
    assert happened(world, 5) == []


def test_longer_questions_are_an_event(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    for day in range(1, 6):
        tokens = {1: 100, 2: 105, 3: 150, 4: 150, 5: None}[day]
        world.answers["tracked"] = lambda ask, n, tokens=tokens: reply(ask, input_tokens=tokens)
        world.measure(day)
    assert happened(world, 5) == [
        ("2027-01-03", "input_tokens", {"items": 6, "of": 6, "median_ratio": 1.4286}),
    ]


def test_another_target_configuration_is_named(make_world: Any) -> None:
    world = make_world(roles=("tracked",), params={"temperature": 0.0})
    world.measure(1)
    # The scripted provider sends no parameters, so the wire request stays and only the record differs.
    world.config = replace(world.config, arms=(replace(world.config.arms[0], params={"top_p": 0.5}),))
    for day in (2, 3, 4):
        world.measure(day)
    world.decide(5)
    deltas = ["temperature: 0 -> not sent", "top_p: not sent -> 0.5"]
    assert happened(world, 5) == [("2027-01-02", "configuration", {"deltas": deltas})]


def test_a_noted_deviation_coincides_with_its_windows_alone(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    for day in range(1, 9):
        world.measure(day)
        if day == 3:
            note = Deviation("s", "noted", world.at(3), "the provider announced an outage", {}, at=world.clock.now())
            add_deviation(world.store, note)
    world.decide(9)
    with world.store.read() as connection:
        found = [stored.verdict for stored in read.verdicts(connection, "s")]
    said = "a deviation that was noted: the provider announced an outage"
    assert [said in str(verdict.clauses["coincides_with"]) for verdict in found] == [True, True, False]


def test_refusals_leave_the_score_and_the_error_rate_alone_and_stand_beside_them(make_world: Any) -> None:
    """A panel that starts to refuse items stays evaluable; the rate alarm says so, and so does the sensitivity."""
    world = make_world(items=40, grid=(4, 4), roles=("tracked",))
    for day in range(1, 13):

        def answer(ask: Ask, times: int, *, refuses: bool = day > 4) -> Reply:
            number = int(ask.item_id[1:])
            return reply(ask, text="no", stop="refusal") if refuses and number % 20 < 3 else reply(ask)

        world.answers["tracked"] = answer
        world.measure(day)
    world.decide(13)
    window = shown(world).window
    arm = window.arms[0]
    assert (window.verdict, window.reasons, arm.pairs) == ("no_change_detected", (), 34)
    assert (arm.delta, arm.outcome_rate_state) == (0.0, "moved")
    assert arm.wrong_delta == pytest.approx(-6 / 40)
    assert "OUTCOME RATE MOVED" in text(world)
    assert "outcome failures counted as wrong: delta -15.0 points" in text(world)


def test_without_outcome_failures_there_is_no_sensitivity(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    for day in range(1, 5):
        world.measure(day)
    world.decide(5)
    assert clauses(world)["arms"]["tracked"]["counted_as_wrong"] is None
    assert "counted as wrong" not in text(world)


def test_a_null_on_a_panel_that_was_passed_says_so(make_world: Any) -> None:
    world = make_world(items=12, grid=(4, 4), roles=("tracked",))
    for day in range(1, 13):
        world.measure(day)
    world.decide(13)
    assert shown(world).window.verdict == "no_change_detected"
    assert "; tracked had already passed the panel in the baseline" in text(world)


def test_usage_that_was_not_reported_is_absent_and_not_zero(make_world: Any) -> None:
    world = make_world(items=12, grid=(4, 4), roles=("tracked",))
    for day in range(1, 13):
        world.answers["tracked"] = lambda ask, n: reply(
            ask, output_tokens=None if ask.item_id in ("i0", "i1") else 10, input_tokens=None
        )
        world.measure(day)
    world.decide(13)
    estimate, tokens = clauses(world)["window"]["estimate"], clauses(world)["arms"]["tracked"]["tokens"]
    assert (estimate["items_paired"], tokens["log_ratio"]["items_paired"]) == (12, 10)


def test_a_replica_is_printed_and_enters_no_formula(make_world: Any) -> None:
    world = make_world(items=12, grid=(4, 4), roles=("tracked", "control", "replica"))
    for day in range(1, 9):
        late = day > 4
        world.answers["replica"] = lambda ask, n, late=late: (
            reply(ask, text="<answer>-1</answer>") if late and int(ask.item_id[1:]) % 2 else reply(ask)
        )
        world.measure(day)
    world.decide(9)
    arms = {arm.arm: (arm.role, arm.delta) for arm in shown(world).window.arms}
    assert arms == {"tracked": ("tracked", 0.0), "control": ("control", 0.0), "replica": ("replica", -0.5)}
    assert "replica" not in clauses(world)["controls"]
    assert any(line.split()[:2] == ["replica", "delta"] for line in text(world).splitlines())


def test_an_application_is_asked_again_after_the_last_item_and_a_second_answer_that_differs_is_kept(
    make_world: Any,
) -> None:
    world = make_world(roles=("tracked",), options={"config_path": "settings"})
    one, other = ({"provider": "own", "model": name} for name in ("m-1", "m-2"))

    def build(arm: Any) -> Any:
        provider = scripted(arm)
        ask, asked = provider.ask, []

        async def reporting(question: Ask) -> Reply:
            asked.append(question.item_id)
            provider.last_report = other if world.drifts and asked.count("pre-flight") == 2 else one
            provider.first_report = provider.first_report or provider.last_report
            return await ask(question)

        provider.first_report = provider.last_report = None
        provider.ask = reporting
        world.order = asked
        return provider

    scripted = world.provider
    world.provider, world.drifts = build, False
    world.measure(1, canary=True)
    assert (world.order[0], world.order[-1], len(world.order)) == ("pre-flight", "pre-flight", 8)
    world.drifts = True
    world.measure(2, canary=True)
    assert happened(world, 2) == [("2027-01-02", "configuration", {"deltas": ["model: m-1 -> m-2"]})]
    with world.store.read() as connection:
        kept = connection.execute(select(run_report.c.first, run_report.c.last).order_by(run_report.c.run_id)).all()
    assert [tuple(row) for row in kept] == [(one, one), (one, other)]
    assert [outcome for *_, outcome, _ in world.outcomes(2)] == ["completed"]


def test_what_happens_every_day_is_one_line_with_its_first_and_last_date(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    world.answers["tracked"] = lambda ask, n: Reply("no idea", "stop") if ask.item_id == "pre-flight" else reply(ask)
    for day in range(1, 7):
        world.measure(day, canary=True)
    world.decide(7)
    said = "4 times from 2027-01-03 to 2027-01-06, tracked: the pre-flight task was answered wrongly"
    assert [line.strip() for line in text(world).splitlines() if "coincides" in line] == [f"coincides with: {said}"]
