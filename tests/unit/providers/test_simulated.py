"""The simulated model: the same numbers everywhere, abilities, eras and faults."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date, timedelta
from statistics import fmean

import pytest

from canaryd.errors import ConfigError
from canaryd.graders import grade
from canaryd.providers import build_provider
from canaryd.providers.base import ProviderError, Surroundings
from canaryd.providers.simulated_answers import answer_pair
from canaryd.providers.simulated_model import AnswerPair, Era, SimulatedModel, shift_for_drop, shifted
from canaryd.records import Arm, Ask, GraderSpec, Item

DAY = date(2026, 1, 5)
IDS = [f"i-{n}" for n in range(60)]
DAYS = [DAY + timedelta(days=n) for n in range(40)]
ANSWERS = {item_id: AnswerPair("right", "wrong") for item_id in IDS}

PINNED = ("wrong", 87, 84, "sim-191bdd21fc62a8", 0.39126247926)


@pytest.fixture
def model():
    return SimulatedModel(model="m", arm="tracked", seed=7, answers=ANSWERS)


def score(model, days=DAYS):
    return fmean(model.reply(item_id, day).text == "right" for item_id in IDS for day in days)


def test_the_same_seed_gives_these_very_replies_on_any_machine(model):
    reply = model.reply("i-0", DAY)
    assert (reply.text, reply.input_tokens, reply.output_tokens) == PINNED[:3]
    assert reply.response_id == PINNED[3]
    assert round(model.ability("i-0"), 12) == PINNED[4]


def test_neither_order_nor_repetition_changes_a_reply(model):
    keys = [(item_id, day, replicate) for item_id in IDS[:5] for day in DAYS[:5] for replicate in (0, 1)]
    forward = {key: model.reply(key[0], key[1], replicate=key[2]) for key in keys}
    backward = {key: model.reply(key[0], key[1], replicate=key[2]) for key in reversed(keys)}
    assert forward == backward
    assert len({reply.response_id for reply in forward.values()}) == len(keys)


def test_scores_scatter_around_the_abilities(model):
    expected = fmean(map(model.ability, IDS))
    assert score(model) == pytest.approx(expected, abs=0.03)
    assert 0.4 < expected < 0.7


def test_two_arms_of_one_model_agree_in_ability_and_differ_by_chance(model):
    twin = replace(model, arm="control")
    assert all(twin.ability(item_id) == model.ability(item_id) for item_id in IDS)
    assert twin.reply("i-0", DAY).response_id != model.reply("i-0", DAY).response_id
    assert replace(model, model="other").ability("i-0") != model.ability("i-0")


def test_an_era_lowers_scores_and_tokens_from_its_first_day_on(model):
    shift = shift_for_drop([model.ability(item_id) for item_id in IDS], 0.15)
    changed = replace(model, eras=(Era(DAYS[20], shift, 2 / 3, "m-2"),))
    before, after = DAYS[:20], DAYS[20:]
    assert score(changed, before) == score(model, before)
    assert score(model, after) - score(changed, after) == pytest.approx(0.15, abs=0.03)
    for day, factor in ((before[-1], 1), (after[0], 2 / 3)):
        whole, part = model.reply("i-1", day).output_tokens, changed.reply("i-1", day).output_tokens
        assert part == pytest.approx(whole * factor, abs=0.6)
    assert changed.reply("i-1", after[0]).standing == "reported"
    assert changed.reply("i-1", before[0]).standing == "echo"


@pytest.mark.parametrize("drop", [0.3, -0.2, 0.0])
def test_a_shift_is_found_for_drops_and_gains(drop):
    abilities = [0.1, 0.5, 0.6, 0.95]
    shift = shift_for_drop(abilities, drop)
    assert fmean(shifted(p, shift) for p in abilities) == pytest.approx(fmean(abilities) - drop, abs=1e-12)


@pytest.mark.parametrize(("abilities", "drop"), [([], 0.1), ([0.5], 0.5), ([0.5], -0.5), ([1.0], 0.1)])
def test_a_drop_that_no_shift_reaches_is_refused(abilities, drop):
    with pytest.raises(ValueError, match="no logit shift"):
        shift_for_drop(abilities, drop)


def test_a_retry_after_a_transport_fault_brings_the_undisturbed_reply(model):
    faulty = replace(model, faults={"overloaded": 0.5})
    for item_id in IDS:
        for attempt in range(1, 40):
            try:
                reply = faulty.reply(item_id, DAY, attempt=attempt)
            except ProviderError:
                continue
            assert reply == model.reply(item_id, DAY)
            break
        else:
            pytest.fail("forty faults at a rate of one half")


def test_faults_come_at_their_rates(model):
    faulty = replace(model, faults={"refusal": 0.1, "truncated": 0.2})
    stops = [faulty.reply(item_id, day).stop for item_id in IDS for day in DAYS]
    assert stops.count("refusal") / len(stops) == pytest.approx(0.1, abs=0.02)
    assert stops.count("length") / len(stops) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(
    "spec",
    [
        (42, GraderSpec("number")),
        ("1/2", GraderSpec("number", {"rel_tol": 0.5})),
        (271828, GraderSpec("number")),
        ("5", GraderSpec("digits")),
        (-90071, GraderSpec("digits")),
        ("A", GraderSpec("choice")),
        ("G", GraderSpec("choice", {"labels": "FG"})),
        ("Paris", GraderSpec("exact")),
        ("ca7", GraderSpec("exact")),
        ("~~", GraderSpec("edit")),
        ("the quick brown fox", GraderSpec("edit")),
    ],
)
def test_the_right_text_passes_and_the_wrong_one_is_read_and_scores_nothing(spec):
    item = Item("i", "f", "i", "?", spec[0], spec[1])
    pair = answer_pair(item)
    assert grade(item, pair.right).passed
    judged = grade(item, pair.wrong)
    assert judged.answered
    assert judged.score == 0.0


def provider(**options):
    items = [Item(item_id, "f", item_id, "?", 42, GraderSpec("number")) for item_id in IDS]
    return build_provider(Arm("t", "tracked", "simulated", "m", options=options), Surroundings(env={}, items=items))


def ask(day=DAY, item_id="i-0"):
    return Ask("s", "t", day, item_id, 0, "", "?")


def test_the_provider_plays_the_eras_of_its_options():
    changed = provider(seed=7, eras=[{"from": "2026-01-06", "drop": 0.15, "token_factor": 0.5, "resolved_model": "m2"}])
    assert asyncio.run(changed.ask(ask())).resolved_model == "m"
    assert asyncio.run(changed.ask(ask(date(2026, 1, 6)))).resolved_model == "m2"


def test_each_attempt_of_a_question_has_its_own_fault():
    flaky = provider(faults={"timeout": 0.9})

    async def kinds():
        found = set()
        for _ in range(60):
            try:
                found.add((await flaky.ask(ask())).stop)
            except ProviderError as error:
                found.add(error.kind)
        return found

    assert asyncio.run(kinds()) == {"timeout", "stop"}


def test_an_item_that_is_not_in_the_panel_shows_life():
    assert asyncio.run(provider().ask(ask(item_id="canary"))).text == "<answer>ok</answer>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": "x"}, "options.seed is 'x'"),
        ({"seed": True}, "options.seed is True"),
        ({"faults": {"sleepy": 0.1}}, "options.faults.sleepy is unknown; allowed: auth"),
        ({"faults": {"timeout": 2}}, "options.faults.timeout is 2, but must be a number between 0 and 1"),
        ({"faults": {"timeout": 0.6, "refusal": 0.6}}, "options.faults add up to more than 1"),
        ({"faults": 1}, "options.faults must be a table"),
        ({"abilities": {"x": 0.5}}, "options.abilities.x is unknown"),
        ({"eras": 1}, "options.eras must be a list"),
        ({"eras": [{"form": "2026-01-01"}]}, r"options.eras\[0\] is .*'form'"),
        ({"eras": [{"from": "yesterday"}]}, r"options.eras\[0\] cannot be read: Invalid isoformat"),
        ({"eras": [{"from": "2026-01-01", "drop": 0.9}]}, r"options.eras\[0\] cannot be read: no logit shift"),
        ({"eras": [{"from": "2026-01-01", "drop": 0.1, "logit_shift": 1}]}, r"options.eras\[0\] is"),
    ],
)
def test_options_that_cannot_be_played_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        provider(**options)
