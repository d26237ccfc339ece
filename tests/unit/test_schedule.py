"""Which slot is owed when: the calendar is UTC, so only clocks, outages and failed attempts can disturb it."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from canaryd.records import Run, RunEnd, RunOutcome, RunStart
from canaryd.schedule import Miss, Owing, Refuse, SlotPolicy, Start, Wait, due_at, due_slots

DAY_1 = date(2027, 3, 26)
ARMS = ("control", "tracked")
OWING = Owing(ARMS, DAY_1)
POLICY = SlotPolicy(due_minute=150, catch_up=timedelta(hours=12), attempts=3, expected=timedelta(minutes=30))


def at(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2027, 3, 26, hour, minute, tzinfo=UTC) + timedelta(days=day - 1)


def slot(day: int) -> date:
    return DAY_1 + timedelta(days=day - 1)


def run(day: int, arm: str, outcome: RunOutcome | None, *, ended: datetime | None = None, attempt: int = 1) -> Run:
    started = due_at(slot(day), 150)
    start = RunStart("s", arm, slot(day), attempt, started, started, "p", "r", "f")
    return Run(0, start, None if outcome is None else RunEnd(ended or started, outcome, "because"))


def day_of(day: int, outcome: RunOutcome, *, ended: datetime | None = None, attempt: int = 1) -> list[Run]:
    return [run(day, arm, outcome, ended=ended, attempt=attempt) for arm in ARMS]


def decide(runs: list[Run], now: datetime) -> list[object]:
    return list(due_slots(runs, now, owing=OWING, policy=POLICY))


def test_the_day_of_a_daylight_saving_change_has_one_slot_like_any_other() -> None:
    # 28 March 2027 is short in Europe; a UTC date does not notice.
    before = day_of(1, "completed") + day_of(2, "completed")
    assert decide(before, at(3, 2, 29)) == [Wait(at(3, 2, 30))]
    assert decide(before, at(3, 2, 30)) == [Start(slot(3), timedelta(0))]
    assert decide(before + day_of(3, "completed"), at(3, 23, 59)) == [Wait(at(4, 2, 30))]


def test_a_host_that_slept_over_the_time_starts_late_the_same_day() -> None:
    assert decide([], at(1, 8, 30)) == [Start(slot(1), timedelta(hours=6))]


def test_after_three_days_of_sleep_two_days_are_missed_and_only_the_third_runs() -> None:
    *missed, last = decide(day_of(1, "completed"), at(4, 3))
    assert [type(each) for each in missed] == [Miss, Miss]
    assert [(each.slot_date, each.arms) for each in missed if isinstance(each, Miss)] == [
        (slot(2), ARMS),
        (slot(3), ARMS),
    ]
    assert last == Start(slot(4), timedelta(minutes=30))


def test_a_day_is_missed_for_the_arms_that_have_no_run_in_it() -> None:
    (missed, _) = decide([run(1, "tracked", "incomplete")], at(2, 0, 1))
    assert isinstance(missed, Miss)
    assert missed.arms == ("control",)


def test_a_run_that_could_not_end_on_its_day_is_not_started() -> None:
    assert decide([], at(1, 13, 59)) == [Start(slot(1), timedelta(hours=11, minutes=29))]
    (refused,) = decide([], at(1, 14, 0))
    assert isinstance(refused, Refuse)
    assert "14:00" in refused.reason
    late = SlotPolicy(due_minute=23 * 60, catch_up=timedelta(hours=12), attempts=3, expected=timedelta(minutes=30))
    assert late.cutoff(slot(1)) == at(1, 23, 30)


def test_a_slow_day_does_not_end_a_series_that_may_be_caught_up_for_a_short_while() -> None:
    slow = SlotPolicy(due_minute=150, catch_up=timedelta(minutes=30), attempts=3, expected=timedelta(hours=5))
    assert slow.cutoff(slot(1)) == at(1, 2, 45), "what is not late is started"
    at_night = replace(slow, due_minute=23 * 60 + 50)
    assert at_night.cutoff(slot(1)) == at(2), "and never on another day"


def test_attempts_are_bounded_and_lie_apart() -> None:
    once = day_of(1, "incomplete", ended=at(1, 3))
    assert decide(once, at(1, 3, 14)) == [Wait(at(1, 3, 15))]
    assert decide(once, at(1, 3, 15)) == [Start(slot(1), timedelta(minutes=45))]
    thrice = [
        one
        for n in (1, 2, 3)
        for one in day_of(1, "config_error" if n == 2 else "incomplete", ended=at(1, 3), attempt=n)
    ]
    (refused,) = decide(thrice, at(1, 4))
    assert isinstance(refused, Refuse)
    assert refused.reason == "3 attempts did not complete it; the last: because"


def test_refusals_lie_apart_and_use_no_attempt_up() -> None:
    refused = [one for n in range(1, 6) for one in day_of(1, "refused", ended=at(1, 3), attempt=n)]
    assert decide(refused, at(1, 3, 14)) == [Wait(at(1, 3, 15))]
    assert decide(refused, at(1, 3, 15)) == [Start(slot(1), timedelta(minutes=45))]


def test_runs_that_were_cut_off_use_no_attempt_up() -> None:
    cut = [one for n in range(1, 6) for one in day_of(1, "abandoned", attempt=n)]
    assert decide(cut, at(1, 3)) == [Start(slot(1), timedelta(minutes=30))]


def test_one_arm_that_is_not_complete_keeps_the_slot_owed() -> None:
    half = [run(1, "tracked", "completed"), run(1, "control", "incomplete", ended=at(1, 3))]
    assert decide(half, at(1, 4)) == [Start(slot(1), timedelta(minutes=90))]


def test_a_clock_set_back_neither_repeats_a_day_nor_opens_a_closed_one() -> None:
    (refused,) = decide(day_of(1, "missed") + day_of(2, "completed"), at(1, 3))
    assert isinstance(refused, Refuse)
    assert "before the slot of 2027-03-27" in refused.reason
    (closed,) = decide(day_of(1, "missed"), at(1, 3))
    assert isinstance(closed, Refuse)


def test_before_the_first_slot_there_is_nothing_but_waiting() -> None:
    assert decide([], at(-30, 12)) == [Wait(at(1, 2, 30))]


moves = st.one_of(
    st.timedeltas(timedelta(seconds=30), timedelta(minutes=40)),  # ticking
    st.timedeltas(timedelta(hours=1), timedelta(days=1)),  # a suspended host
    st.timedeltas(timedelta(days=1), timedelta(days=40)),  # an outage
    st.timedeltas(timedelta(days=-3), timedelta(0)),  # a clock set back
)
outcomes = st.sampled_from([one for one in get_args(RunOutcome) if one != "missed"])


@given(st.lists(st.tuples(moves, outcomes), max_size=60))
def test_whatever_the_clock_and_the_runs_do_every_day_is_accounted_for_once(
    story: list[tuple[timedelta, RunOutcome]],
) -> None:
    runs: list[Run] = []
    now, newest = at(1), DAY_1
    for move, outcome in story:
        now = max(now + move, at(1))
        *misses, last = decide(runs, now)
        today = now.date()
        for miss in misses:
            assert isinstance(miss, Miss)
            assert miss.slot_date < today, "only a day that is over is missed"
            assert not any(each.start.slot_date == miss.slot_date and each.start.arm in miss.arms for each in runs)
            runs += [run((miss.slot_date - DAY_1).days + 1, arm, "missed") for arm in miss.arms]
        if isinstance(last, Start):
            assert last.slot_date == today >= newest, "nothing is back-filled"
            assert last.late >= timedelta(0)
            assert now < POLICY.cutoff(today)
            here = [each for each in runs if each.start.slot_date == today]
            assert not any(each.end and each.end.outcome == "missed" for each in here)
            day, attempt = (today - DAY_1).days + 1, 1 + max((each.start.attempt for each in here), default=0)
            runs += day_of(day, outcome, ended=now, attempt=attempt)
            newest = today
        elif isinstance(last, Wait):
            assert last.until > now
    counted = [(each.start.slot_date, each.start.arm) for each in runs if each.end and each.end.outcome == "missed"]
    assert len(counted) == len(set(counted)), "a day is closed as missed once"
    for day in (DAY_1 + timedelta(days=n) for n in range((newest - DAY_1).days)):
        assert {each.start.arm for each in runs if each.start.slot_date == day} == set(ARMS)
        tried = [each for each in runs if each.start.slot_date == day and each.start.arm == "tracked" and each.end]
        assert sum(each.end.outcome in {"incomplete", "config_error"} for each in tried if each.end) <= POLICY.attempts
        assert sum(each.end.outcome == "completed" for each in tried if each.end) <= 1
