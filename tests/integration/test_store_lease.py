"""Who may write a series: take, keep, lose and give back the lease, on both databases."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from typing import Any

import pytest

from canaryd.errors import Locked, UsageError
from canaryd.records import Alarm, EarlyWarningDay, RunEnd
from canaryd.runner.clock import FrozenClock
from canaryd.runner.project import held
from canaryd.store import read
from canaryd.store.engine import Store, open_store
from canaryd.store.lease import LeasePolicy, acquire_lease, current_lease, hand_over, release_lease, renew_lease
from canaryd.store.process import holder_of, this_process
from canaryd.store.rows import AlreadyClaimed
from canaryd.store.write import append_alarm, append_early_warning, append_sample, claim_slot, end_run, register_series

SECOND = timedelta(seconds=1)


def test_a_held_series_names_its_holder(store: Store, study: Any) -> None:
    study.register(store)
    with pytest.raises(Locked, match=r"'s' is held by process 1 on here until 2030-01-01T12:01:00\+00:00"):
        acquire_lease(store, "s", holder=study.holder(2), now=study.now + 59 * SECOND, policy=study.policy)


def test_a_lapsed_lease_is_taken_over_with_the_next_term(store: Store, study: Any) -> None:
    first = study.register(store)
    second = acquire_lease(store, "s", holder=study.holder(2), now=study.now + 60 * SECOND, policy=study.policy)
    assert (first.term, second.term, second.holder) == (1, 2, study.holder(2))
    with store.read() as connection:
        assert current_lease(connection, "s") == second


def test_a_dead_holder_counts_as_lapsed_at_once(store: Store, study: Any) -> None:
    first = study.register(store)
    asked = []
    policy = LeasePolicy(study.policy.ttl, is_alive=lambda holder: bool(asked.append(holder)))
    second = acquire_lease(store, "s", holder=study.holder(2), now=study.now, policy=policy)
    assert asked == [first.holder]
    assert second.term == 2


def test_what_a_parent_handed_over_goes_back_to_it_and_nobody_can_step_between(store: Store, study: Any) -> None:
    register_series(store, study.plan())
    clock, parent = FrozenClock(study.now), holder_of(os.getppid())
    lease = acquire_lease(store, "s", holder=parent, now=study.now, policy=study.policy)
    hand_over(store, lease, to=this_process(), now=study.now, policy=study.policy)
    with held(store, "s", clock=clock):
        pass
    with store.read() as connection:
        given_back = current_lease(connection, "s")
    assert given_back is not None
    assert given_back.holder == parent
    with pytest.raises(Locked), held(store, "s", clock=clock):
        pass


def test_what_was_taken_is_free_again(store: Store, study: Any) -> None:
    register_series(store, study.plan())
    with held(store, "s", clock=FrozenClock(study.now)):
        pass
    assert acquire_lease(store, "s", holder=study.holder(2), now=study.now, policy=study.policy).term == 2


def test_renewing_moves_the_end(store: Store, study: Any) -> None:
    lease = study.register(store)
    renewed = renew_lease(store, lease, now=study.now + 50 * SECOND, policy=study.policy)
    assert renewed.expires_at == study.now + 110 * SECOND
    with pytest.raises(Locked):
        acquire_lease(store, "s", holder=study.holder(2), now=study.now + 100 * SECOND, policy=study.policy)


def test_releasing_frees_the_series(store: Store, study: Any) -> None:
    lease = study.register(store)
    release_lease(store, lease, now=study.now)
    second = acquire_lease(store, "s", holder=study.holder(2), now=study.now, policy=study.policy)
    assert second.term == 2
    release_lease(store, lease, now=study.now)
    with store.read() as connection:
        assert current_lease(connection, "s") == second


def test_whoever_lost_the_lease_writes_nothing(store: Store, study: Any) -> None:
    lost = study.register(store)
    (run,) = study.claim(store, lost, study.start())
    acquire_lease(store, "s", holder=study.holder(2), now=study.now + 90 * SECOND, policy=study.policy)
    attempts = [
        lambda: renew_lease(store, lost, now=study.now, policy=study.policy),
        lambda: claim_slot(store, [study.start(2)], lease=lost, epoch=1),
        lambda: append_sample(store, study.sample(run, "a", 1.0), run_id=run.run_id, lease=lost),
        lambda: end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lost),
        lambda: append_alarm(store, Alarm("s", "ok", study.now, None), lease=lost),
        lambda: append_early_warning(
            store, [EarlyWarningDay("s", "score", 1, study.day_1, 1, 1.0, 9.0, False, None)], lease=lost
        ),
    ]
    for attempt in attempts:
        with pytest.raises(Locked, match="'s' was taken over from this process by process 2 on here"):
            attempt()
    with store.read() as connection:
        assert read.runs(connection, "s") == (run,)
        assert read.alarms(connection, "s") == ()
        assert read.early_warnings(connection, "s", stream="score") == ()


def test_the_successor_closes_and_resumes(store: Store, study: Any) -> None:
    first = study.register(store)
    (run,) = study.claim(store, first, study.start())
    second = acquire_lease(store, "s", holder=study.holder(2), now=study.now + 90 * SECOND, policy=study.policy)
    end_run(store, RunEnd(study.now, "abandoned", "holder gone"), run_id=run.run_id, lease=second)
    (resumed,) = study.claim(store, second, study.start(attempt=2))
    append_sample(store, study.sample(resumed, "a", 1.0), run_id=resumed.run_id, lease=second)
    with store.read() as connection:
        assert read.open_runs(connection, "s") == (resumed,)


def test_a_lease_of_one_series_does_not_write_another(store: Store, study: Any) -> None:
    lease = study.register(store)
    other = study.register(store, "other")
    (run,) = study.claim(store, other, study.start(series="other"))
    with pytest.raises(ValueError, match="'s' has no run"):
        append_sample(store, study.sample(run, "a", 1.0), run_id=run.run_id, lease=lease)


def test_an_unknown_series_has_no_lease(store: Store, study: Any) -> None:
    with pytest.raises(UsageError, match="'s' is not registered"):
        acquire_lease(store, "s", holder=study.holder(), now=study.now, policy=study.policy)


def together(count: int, work: Any) -> list[Any]:
    """Run `work(i)` in `count` threads that start at once; return the results or exceptions."""
    barrier, results = threading.Barrier(count), [None] * count

    def one(i: int) -> None:
        barrier.wait()
        try:
            results[i] = work(i)
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_of_many_daemons_one_gets_the_lease(store_url: str, study: Any) -> None:
    stores = [open_store(store_url) for _ in range(5)]
    try:
        register_series(stores[0], study.plan())

        def take(i: int) -> Any:
            return acquire_lease(stores[i], "s", holder=study.holder(i + 1), now=study.now, policy=study.policy)

        results = together(5, take)
    finally:
        for store in stores:
            store.close()
    assert sum(isinstance(each, Locked) for each in results) == 4, results


def test_of_many_claims_one_is_granted(store_url: str, study: Any) -> None:
    stores = [open_store(store_url) for _ in range(5)]
    try:
        lease = study.register(stores[0])
        starts = [study.start(), study.start(arm="ctl")]
        results = together(5, lambda i: claim_slot(stores[i], starts, lease=lease, epoch=1))
        with stores[0].read() as connection:
            assert len(read.runs(connection, "s")) == 2
    finally:
        for store in stores:
            store.close()
    assert sum(isinstance(each, AlreadyClaimed) for each in results) == 4, results
