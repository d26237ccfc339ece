"""Judging with scripted judges: what is asked again, what is recorded and what stops a duel."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from canaryd.config import Retry
from canaryd.duel.model import Question, Retrievals
from canaryd.duel.pairing import owed
from canaryd.duel.record import parse_record
from canaryd.duel.registration import bind, parse_plan
from canaryd.duel.run import Bench, Budget, run_owed
from canaryd.duel.substrates import SubstrateError
from canaryd.errors import MeasurementRefused
from canaryd.providers.base import ProviderError
from canaryd.records import Reply
from canaryd.resources import resource
from canaryd.testing import FakeClock, ScriptedProvider

FAMILIES = ("registration", "duel", "compare")
QUESTIONS = tuple(Question(f"{family}-{n}", family, f"{family} {n}?") for family in FAMILIES for n in range(2))


def said(winner="first", **fields):
    answer = {"label_first": "correct", "label_second": "partial", "winner": winner, "rationale": "r"}
    return Reply(json.dumps(answer), "stop", resolved_model="m-1", **fields)


class Echo:
    """A substrate that returns its name and the query, or fails on a query."""

    def __init__(self, name, fails_on=""):
        self.name, self.fails_on, self.asked = name, fails_on, []

    async def retrieve(self, query):
        self.asked.append(query)
        if query == self.fails_on:
            raise SubstrateError("no index")
        return f"{self.name} {query} " + "x" * 9000

    async def aclose(self):
        pass


class Table:
    """A duel with scripted judges; `run` judges what is owed and returns the entries of the record."""

    def __init__(self, one, two=None, *, prices=False, calls=400, fails_on=""):
        text = resource("examples/duel/duel.toml").read_text()
        if prices:
            text = text.replace("concurrency = 4", "concurrency = 4\nusd_per_million = { input = 1, output = 4 }")
        plan = parse_plan(text.encode(), source="duel.toml")
        self.duel = bind(plan, [b"x"], questions=QUESTIONS, anchors=())
        self.names = [judge.identity for judge in plan.judges]
        self.judges = {name: ScriptedProvider(by) for name, by in zip(self.names, (one, two or one), strict=True)}
        self.substrates = {"a": Echo("a", fails_on), "b": Echo("b")}
        self.lines = []
        self.budget = Budget(calls)
        self.clock = FakeClock(datetime(2027, 3, 1, tzinfo=UTC))

    def run(self, known=None):
        bench = Bench(self.duel, self.judges, self.substrates, self, self.budget, Retry(), self.clock)
        left = owed(QUESTIONS, self.entries(), judges=self.names)
        asyncio.run(run_owed(left, known or {}, bench=bench))
        return self.entries()

    def append(self, line):
        self.lines.append(line)

    def entries(self):
        return parse_record(b"".join(self.lines), duel=self.duel.digest, source="r")

    @property
    def calls(self):
        return sum(len(judge.asked) for judge in self.judges.values())


def test_every_question_is_judged_by_both_in_both_orders_on_the_same_cut_texts():
    table = Table(lambda ask, times: said())
    entries = table.run()
    assert (len(entries), table.calls) == (4 * len(QUESTIONS),) * 2
    assert {len(one.retrievals.a) for one in entries} == {1200}
    assert {(one.ordering, one.winner) for one in entries} == {("a_first", "a"), ("b_first", "b")}
    assert {(one.label_a, one.label_b) for one in entries if one.ordering == "b_first"} == {("partial", "correct")}
    assert all(len(substrate.asked) == len(QUESTIONS) for substrate in table.substrates.values())
    by_first, by_second = (judge.asked[0].prompt for judge in table.judges.values())
    assert by_first == by_second
    assert (entries[0].resolved_model, entries[0].cost_usd_estimate) == ("m-1", None)
    assert table.run() == entries


def test_what_does_not_parse_is_asked_once_more():
    table = Table(lambda ask, times: said() if times else Reply("hm", "stop"))
    assert all(hasattr(one, "winner") for one in table.run())
    assert table.calls == 8 * len(QUESTIONS)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Reply("hm", "stop"), "the answer is not of the asked form, 2 times"),
        (Reply(said().text, "length"), "truncated, 2 times"),
        (Reply("", "refusal"), "refusal, 2 times"),
        (ProviderError("malformed", "no message"), "malformed, 2 times"),
    ],
)
def test_and_then_it_is_unjudged(answer, reason):
    table = Table(lambda ask, times: said(), lambda ask, times: answer)
    entries = table.run()
    assert {one.reason for one in entries if one.judge == table.names[1]} == {reason}
    assert {one.winner for one in entries if one.judge == table.names[0]} == {"a", "b"}
    assert table.calls == 6 * len(QUESTIONS)


def test_transport_failures_wait_and_are_asked_again():
    table = Table(lambda ask, times: said() if times else ProviderError("overloaded", "busy", retry_after_s=3))
    assert len(table.run()) == 4 * len(QUESTIONS)
    assert set(table.clock.slept) == {3}


@pytest.mark.parametrize(("kind", "calls"), [("auth", 1), ("overloaded", 4)])
def test_a_judge_that_cannot_be_asked_stops_the_duel_and_nothing_is_recorded_of_it(kind, calls):
    table = Table(lambda ask, times: ProviderError(kind, "no"))
    with pytest.raises(MeasurementRefused, match=rf"judge openai:judge-one:1 could not be asked \({kind}: no\)"):
        table.run()
    assert (table.calls, table.lines) == (calls, [])


def test_a_judge_that_fails_later_leaves_what_was_recorded():
    failing = QUESTIONS[3].id
    broken = Table(lambda ask, times: ProviderError("quota", "spent") if ask.item_id == failing else said())
    with pytest.raises(MeasurementRefused, match="quota"):
        broken.run()
    assert 4 <= len(broken.lines) < 4 * len(QUESTIONS)
    assert failing not in {one.question_id for one in broken.entries()}


def test_a_substrate_fault_is_a_row_and_costs_no_call():
    table = Table(lambda ask, times: said(), fails_on=QUESTIONS[0].query)
    entries = table.run()
    assert (entries[0].substrate_id, entries[0].reason) == ("lines", "no index")
    assert table.calls == 4 * (len(QUESTIONS) - 1)
    assert table.run() == entries


def test_the_budget_stops_before_the_call():
    table = Table(lambda ask, times: said(), calls=3)
    with pytest.raises(MeasurementRefused, match="used up"):
        table.run()
    assert (table.calls, len(table.lines)) == (3, 3)


def test_recorded_retrievals_are_used_again():
    table = Table(lambda ask, times: said())
    entries = table.run({question.id: Retrievals("known a", "known b") for question in QUESTIONS})
    assert {one.retrievals.a for one in entries} == {"known a"}
    assert table.substrates["a"].asked == []


def test_cost_counts_every_call_at_the_registered_prices():
    def answer(ask, times):
        known = said(input_tokens=1000, output_tokens=100)
        return known if times else Reply("hm", "stop", input_tokens=1000, output_tokens=50)

    costs = {one.cost_usd_estimate for one in Table(answer, prices=True).run()}
    assert costs == {0.0026}


def test_a_cost_that_is_not_wholly_known_is_absent():
    costs = {one.cost_usd_estimate for one in Table(lambda ask, times: said(input_tokens=5), prices=True).run()}
    assert costs == {None}
