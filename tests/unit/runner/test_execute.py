"""Asking: order, retries, failures at the boundary, deadlines and the first ask of an arm."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from canaryd.config import Retry
from canaryd.errors import Locked
from canaryd.providers.base import ProviderError
from canaryd.records import Arm, Ask, Failure, Grade, Reply, Sample
from canaryd.runner.budget import Spare
from canaryd.runner.calls import TOLD_TO_END, Drain, drain
from canaryd.runner.clock import SystemClock
from canaryd.runner.execute import Execution, Lane, Usage, execute
from canaryd.runner.plan import plan_asks
from canaryd.testing import FakeClock, ScriptedProvider, number_items

DAY = date(2027, 3, 1)
ARM = Arm("t", "tracked", "scripted", "m")
RIGHT = Reply("4", "stop", output_tokens=3)
Answer = Callable[[Ask, int], Reply | ProviderError]


class Kept:
    def __init__(self, fail_at: int | None = None) -> None:
        self.rows: list[tuple[int, Sample]] = []
        self.fail_at = fail_at

    async def record(self, run_id: int, sample: Sample) -> None:
        await asyncio.sleep(0)
        if len(self.rows) == self.fail_at:
            raise Locked("another process holds the series")
        self.rows.append((run_id, sample))


async def graded(ask: Ask, text: str) -> Grade | Failure:
    return Grade(float(text == "4"), True, text == "4")


def day(
    answers: dict[str, Answer], *, items: int = 6, kept: Kept | None = None, **arm: object
) -> tuple[Kept, Execution]:
    kept = kept or Kept()
    lanes = {
        name: Lane(Arm(name, "tracked", "scripted", "m", **arm), ScriptedProvider(answer), run_id)
        for run_id, (name, answer) in enumerate(answers.items(), start=1)
    }
    execution = Execution(
        lanes=lanes,
        grade=graded,
        keep=kept,
        retry=Retry(calls=3, first_wait_s=2, total_wait_s=100),
        clock=FakeClock(datetime(2027, 3, 1, 3, 10, tzinfo=UTC)),
    )
    asks = plan_asks(number_items(items), arms=list(answers), series="s", slot_date=DAY, seed=1, system="")
    asyncio.run(execute(asks, execution))
    return kept, execution


def asked_by(execution: Execution, arm: str) -> list[Ask]:
    provider = execution.lanes[arm].provider
    assert isinstance(provider, ScriptedProvider)
    return provider.asked


def test_every_item_of_both_arms_is_asked_once_and_kept() -> None:
    kept, execution = day({"t": lambda ask, n: RIGHT, "c": lambda ask, n: Reply("5", "stop")})
    assert sorted(sample.key.item_id for run, sample in kept.rows if run == 1) == [f"sums-{n}" for n in range(6)]
    assert [r.score for r in execution.lanes["c"].results if isinstance(r, Grade)] == [0.0] * 6


def test_the_order_is_seeded_and_differs_between_days() -> None:
    def order(on: date, seed: int) -> list[str]:
        asks = plan_asks(number_items(20), arms=["t", "c"], series="s", slot_date=on, seed=seed, system="")
        assert all(asks[n].item_id == asks[n + 1].item_id for n in range(0, 40, 2)), "arms of an item stand together"
        return [ask.item_id for ask in asks[::2]]

    assert order(DAY, 1) == order(DAY, 1)
    assert len({tuple(order(DAY, 1)), tuple(order(DAY, 2)), tuple(order(date(2027, 3, 2), 1))}) == 3


def test_transport_failures_are_retried_and_every_call_is_counted() -> None:
    def flaky(ask: Ask, times: int) -> Reply | ProviderError:
        return ProviderError("overloaded", "busy", retry_after_s=7) if times < 2 else RIGHT

    kept, execution = day({"t": flaky}, items=1)
    assert [(sample.calls, sample.result) for _, sample in kept.rows] == [(3, Grade(1.0, True, True))]
    assert isinstance(execution.clock, FakeClock)
    assert execution.clock.slept == [7, 7]


def test_retries_end_and_the_failure_keeps_its_kind() -> None:
    kept, _ = day({"t": lambda ask, n: ProviderError("timeout", "no reply")}, items=2)
    assert [(s.calls, s.result) for _, s in kept.rows] == [(3, Failure("timeout", "no reply"))] * 2


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply("4", "length"), "truncated"),
        (Reply("", "stop", output_tokens=13), "empty"),
        (Reply("no", "refusal"), "refusal"),
        (Reply("", "content_filter"), "content_filtered"),
    ],
)
def test_outcome_failures_are_final_and_never_a_score(reply: Reply, kind: str) -> None:
    kept, execution = day({"t": lambda ask, n: reply}, items=1)
    (result,) = [sample.result for _, sample in kept.rows]
    assert isinstance(result, Failure)
    assert (result.kind, result.is_harness, len(asked_by(execution, "t"))) == (kind, False, 1)


def test_a_refused_request_ends_its_arm_after_one_call_and_leaves_the_other_alone() -> None:
    kept, execution = day({"t": lambda ask, n: ProviderError("not_found", "no such model"), "c": lambda ask, n: RIGHT})
    assert len(asked_by(execution, "t")) == 1
    assert execution.lanes["t"].config_error == Failure("not_found", "no such model")
    assert sum(run == 2 for run, _ in kept.rows) == 6


def test_a_fault_of_the_harness_is_internal_and_ends_neither_run_nor_item_order() -> None:
    def broken(ask: Ask, times: int) -> Reply | ProviderError:
        raise RuntimeError("with a secret in it")

    kept, _ = day({"t": broken}, items=3)
    assert {sample.result for _, sample in kept.rows} == {Failure("internal", "RuntimeError")}


def test_no_request_starts_after_the_end_of_the_slot() -> None:
    def slow(ask: Ask, times: int) -> Reply | ProviderError:
        clock.moment = datetime(2027, 3, 2, tzinfo=UTC)
        return RIGHT

    clock = FakeClock(datetime(2027, 3, 1, 23, 59, tzinfo=UTC))
    lane = Lane(Arm("t", "tracked", "scripted", "m", concurrency=1), ScriptedProvider(slow), 1)
    kept = Kept()
    asks = plan_asks(number_items(5), arms=["t"], series="s", slot_date=DAY, seed=1, system="")
    asyncio.run(execute(asks, Execution({"t": lane}, graded, kept, Retry(), clock)))
    assert (len(kept.rows), lane.stopped) == (1, "the UTC day ended")


def test_no_request_starts_once_the_run_has_lasted_its_longest() -> None:
    def slow(ask: Ask, times: int) -> Reply | ProviderError:
        clock.moment += timedelta(seconds=40)
        return RIGHT if times else ProviderError("overloaded", "busy")

    clock = FakeClock(datetime(2027, 3, 1, 3, 10, tzinfo=UTC))
    lane = Lane(Arm("t", "tracked", "scripted", "m", concurrency=1), ScriptedProvider(slow), 1)
    kept = Kept()
    asks = plan_asks(number_items(5), arms=["t"], series="s", slot_date=DAY, seed=1, system="")
    bounded = Retry(first_wait_s=0, longest_run_s=100)
    asyncio.run(execute(asks, Execution({"t": lane}, graded, kept, bounded, clock)))
    assert [(sample.calls, isinstance(sample.result, Grade)) for _, sample in kept.rows] == [(2, True), (1, False)]
    assert lane.stopped == "the run lasted retry.longest_run_s"


def test_where_no_request_may_start_any_more_the_rate_is_not_waited_for() -> None:
    clock = FakeClock(datetime(2027, 3, 1, 23, 59, 30, tzinfo=UTC))
    lane = Lane(Arm("t", "tracked", "scripted", "m", requests_per_minute=1.0), ScriptedProvider(lambda *_: RIGHT), 1)
    kept = Kept()
    asks = plan_asks(number_items(5), arms=["t"], series="s", slot_date=DAY, seed=1, system="")
    asyncio.run(execute(asks, Execution({"t": lane}, graded, kept, Retry(), clock)))
    assert (len(kept.rows), lane.stopped, clock.slept) == (1, "the UTC day ended", [])


@pytest.fixture
def told() -> Iterator[Drain]:
    """The way in which this context is told to end."""
    how = Drain()
    token = drain.set(how)
    yield how
    drain.reset(token)


def test_once_told_to_end_what_is_in_flight_lands_and_nothing_else_begins(told: Drain) -> None:
    def answer(ask: Ask, times: int) -> Reply:
        told.tell()
        return RIGHT

    kept, execution = day({"t": answer}, concurrency=2)
    assert [sample.result for _, sample in kept.rows] == [Grade(1.0, True, True)]
    assert (len(asked_by(execution, "t")), execution.lanes["t"].stopped) == (1, TOLD_TO_END)


@pytest.mark.parametrize("arm", [{}, {"requests_per_minute": 0.5}], ids=["a retry", "the rate"])
def test_once_told_to_end_no_wait_goes_on(told: Drain, arm: dict[str, float]) -> None:
    class Waits(SystemClock):
        async def sleep(self, seconds: float) -> None:
            asyncio.get_running_loop().call_soon(told.tell)
            await asyncio.sleep(3600)

        def now(self) -> datetime:
            return datetime(2027, 3, 1, 3, 10, tzinfo=UTC)

    answer = RIGHT if arm else ProviderError("overloaded", "busy")
    lane = Lane(Arm("t", "tracked", "scripted", "m", **arm), ScriptedProvider(lambda *_: answer), 1)
    kept = Kept()
    asks = plan_asks(number_items(5), arms=["t"], series="s", slot_date=DAY, seed=1, system="")
    asyncio.run(execute(asks, Execution({"t": lane}, graded, kept, Retry(first_wait_s=60), Waits())))
    assert (len(kept.rows), lane.stopped, lane.usage.calls) == (1, TOLD_TO_END, 1)


def test_a_store_that_refuses_stops_the_run_with_its_own_sentence() -> None:
    with pytest.raises(Locked, match="another process holds"):
        day({"t": lambda ask, n: RIGHT}, kept=Kept(fail_at=2), concurrency=1)


def test_requests_per_minute_space_the_calls() -> None:
    _, execution = day({"t": lambda ask, n: RIGHT}, items=4, requests_per_minute=30.0)
    assert isinstance(execution.clock, FakeClock)
    assert execution.clock.slept == [2.0, 2.0, 2.0]


def test_a_call_that_is_made_again_waits_for_its_turn_like_any_other() -> None:
    begun: list[float] = []

    def busy(ask: Ask, times: int) -> ProviderError:
        begun.append(clock.monotonic_s())
        return ProviderError("overloaded", "busy")

    clock = FakeClock(datetime(2027, 3, 1, 3, 10, tzinfo=UTC))
    lane = Lane(Arm("t", "tracked", "scripted", "m", requests_per_minute=1.0), ScriptedProvider(busy), 1)
    asks = plan_asks(number_items(2), arms=["t"], series="s", slot_date=DAY, seed=1, system="")
    asyncio.run(execute(asks, Execution({"t": lane}, graded, Kept(), Retry(calls=3, first_wait_s=2), clock)))
    assert [later - earlier for earlier, later in pairwise(begun)] == [60.0] * 5


def test_what_waits_for_its_turn_is_not_made_again_after_the_end_of_the_slot() -> None:
    clock = FakeClock(datetime(2027, 3, 1, 23, 59, 30, tzinfo=UTC))
    busy = ScriptedProvider(lambda *_: ProviderError("overloaded", "busy"))
    lane, kept = Lane(Arm("t", "tracked", "scripted", "m", requests_per_minute=1.0), busy, 1), Kept()
    asks = plan_asks(number_items(1), arms=["t"], series="s", slot_date=DAY, seed=1, system="")
    asyncio.run(execute(asks, Execution({"t": lane}, graded, kept, Retry(first_wait_s=2), clock)))
    assert [(sample.calls, sample.result) for _, sample in kept.rows] == [(1, Failure("overloaded", "busy"))]


def test_nothing_is_made_again_that_the_budget_does_not_cover() -> None:
    busy = ScriptedProvider(lambda *_: ProviderError("overloaded", "busy"))
    lane, kept = Lane(ARM, busy, 1, spare=Spare(3, "calls_per_day is 9")), Kept()
    asks = plan_asks(number_items(6), arms=["t"], series="s", slot_date=DAY, seed=1, system="")
    clock = FakeClock(datetime(2027, 3, 1, 3, 10, tzinfo=UTC))
    asyncio.run(execute(asks, Execution({"t": lane}, graded, kept, Retry(calls=2), clock)))
    assert len(busy.asked) == 9
    said = "busy; not asked again: the budget's calls_per_day is 9"
    assert Counter(sample.result.detail for _, sample in kept.rows) == {"busy": 3, said: 3}


@pytest.mark.parametrize("first", ["auth", "timeout"])
def test_a_refused_request_ends_its_arm_while_nothing_was_measured_though_the_trivial_task_came_back(
    first: str,
) -> None:
    refused = ScriptedProvider(lambda *_: ProviderError(first if len(refused.asked) == 1 else "auth", "revoked"))
    lane = Lane(replace(ARM, concurrency=1), refused, 1, canary=Grade(1.0, True, True))
    asks = plan_asks(number_items(78), arms=["t"], series="s", slot_date=DAY, seed=1, system="")
    clock = FakeClock(datetime(2027, 3, 1, 3, 10, tzinfo=UTC))
    asyncio.run(execute(asks, Execution({"t": lane}, graded, Kept(), Retry(calls=1), clock)))
    assert (len(refused.asked), lane.config_error) == (1 if first == "auth" else 2, Failure("auth", "revoked"))


def test_a_refused_request_ends_no_arm_of_which_something_was_measured() -> None:
    def once(ask: Ask, times: int) -> Reply | ProviderError:
        return RIGHT if ask == asks[0] else ProviderError("bad_request", "too long")

    asks = plan_asks(number_items(6), arms=["t"], series="s", slot_date=DAY, seed=1, system="")
    lane, kept = Lane(ARM, ScriptedProvider(once), 1), Kept()
    clock = FakeClock(datetime(2027, 3, 1, 3, 10, tzinfo=UTC))
    asyncio.run(execute(asks, Execution({"t": lane}, graded, kept, Retry(), clock)))
    assert (len(kept.rows), lane.config_error) == (6, None)


def test_a_call_that_ends_as_nothing_documented_is_counted() -> None:
    def broken(ask: Ask, times: int) -> ProviderError:
        if times:
            raise RuntimeError("no such state")
        return ProviderError("overloaded", "busy")

    kept, execution = day({"t": broken}, items=3)
    assert [(sample.calls, sample.result) for _, sample in kept.rows] == [(2, Failure("internal", "RuntimeError"))] * 3
    assert execution.lanes["t"].usage.calls == 6


def test_tokens_that_no_reply_reports_are_charged_at_the_most_that_they_can_be() -> None:
    _, execution = day({"t": lambda ask, n: Reply("4", "stop")}, items=1, params={"max_tokens": 64})
    assert execution.lanes["t"].usage == Usage(1, len("What is 0 + 0?"), 64)


def test_a_reply_that_came_before_measures_nothing() -> None:
    kept, _ = day({"t": lambda ask, n: Reply("4", "stop", response_id="r-1")}, items=3)
    results = [sample.result for _, sample in kept.rows]
    assert [r.kind for r in results if isinstance(r, Failure)] == ["replayed", "replayed"]
    assert results[0] == Grade(1.0, True, True)


def test_usage_counts_the_calls_and_tokens_that_failed_too() -> None:
    def costly(ask: Ask, times: int) -> Reply | ProviderError:
        if times == 0:
            return ProviderError("overloaded", "cut off", input_tokens=7, output_tokens=5)
        return Reply("4", "stop", input_tokens=7, output_tokens=3)

    _, execution = day({"t": costly}, items=2)
    assert execution.lanes["t"].usage == Usage(calls=4, input_tokens=28, output_tokens=16)
