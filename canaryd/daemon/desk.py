"""One series in the daemon: its lease, its child, and what a tick makes of the slots that it owes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Literal

import structlog

from canaryd.config import Config, Retry, SeriesConfig
from canaryd.daemon.progress import progress
from canaryd.daemon.refusals import blocked_line, refusals
from canaryd.daemon.regrading import Regrading
from canaryd.daemon.telling import Telling
from canaryd.daemon.worker import Order, Work, Worker
from canaryd.errors import CanarydError, Locked
from canaryd.records import Arm, JsonValue, Run
from canaryd.runner.clock import Clock
from canaryd.runner.closing import Books, close_past
from canaryd.runner.project import LEASE_POLICY
from canaryd.schedule import Decision, Miss, Owing, Refuse, SlotPolicy, Start, Wait, due_slots, next_due, policy_of
from canaryd.store import harness, read
from canaryd.store.engine import Store
from canaryd.store.lease import Lease, acquire_lease, current_lease, hand_over, release_lease, renew_lease
from canaryd.store.process import Holder, holder_of, this_process
from canaryd.store.rows import Series
from canaryd.windows import utc_date

#: What is said of a child before there is more to say.
_BEGUN = {"measure": "starting", "decide": "deciding"}
#: A child may be silent for this much longer than its waits and calls may take.
SILENCE_MARGIN_S = 120.0


def longest_silence_s(asked: Iterable[Arm], retry: Retry) -> float:
    """Return the seconds between two signs of life of a child after which it is stuck.

    Between them lie at most the wait before a repeated call (a provider's own Retry-After, too, is kept only within
    `total_wait_s`), the pause that the slowest pace asks for, and one call.

    >>> slow = Arm("a", "tracked", "openai", "m", timeout_s=60, requests_per_minute=0.1)
    >>> longest_silence_s([slow], Retry(total_wait_s=300))
    1080.0
    """
    arms = list(asked)
    pauses = [60.0 / arm.requests_per_minute for arm in arms if arm.requests_per_minute is not None]
    return retry.total_wait_s + max(pauses, default=0.0) + max(arm.timeout_s for arm in arms) + SILENCE_MARGIN_S


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration that is in force, with the text it was read from and what the command line says of logs."""

    config: Config
    text: str
    log_level: str | None = None

    @property
    def level(self) -> str:
        """The least important line logged: what the command line says, else the configuration."""
        return self.log_level or self.config.service.log_level

    def order(self, work: Work, *, series: str, slot_date: date) -> Order:
        """Return the order for a child."""
        return Order(work, series, slot_date.isoformat(), str(self.config.path), self.text, self.level)


StartWorker = Callable[[Order], Worker]


class Desk:
    """The daemon's work on one series; every method is called from the scheduler's thread.

    `state` is a line for a person, `progress` the stored and the planned samples while a slot is measured, `blocked`
    the reason why this process does not serve the series, and `refused` that for which today's slot was refused;
    `changed` is set when a child has ended, so that the snapshot is taken anew.
    """

    def __init__(self, series: SeriesConfig, start_worker: StartWorker) -> None:
        self.name = series.name
        self.worker: Worker | None = None
        self.state = "starting"
        self.changed = False
        self.next_at: datetime | None = None
        self.progress: tuple[int, int] | None = None
        self.blocked: str | None = None
        self.refused: str | None = None
        self._lease: Lease | None = None
        self._heir: Holder | None = None
        self._start_worker = start_worker
        self._regrading = Regrading(start_worker)
        self.telling = Telling(series.name, start_worker)
        self._patience_s = 0.0
        self._not_before: datetime | None = None
        self._decided_on: date | None = None
        self._closed_before: date | None = None
        self._log = structlog.get_logger("canaryd.daemon").bind(series=series.name)

    @property
    def is_holder(self) -> bool:
        """Whether this daemon, or its child on its behalf, holds the series."""
        return self._lease is not None or self.worker is not None

    def tick(self, store: Store, loaded: Loaded, *, clock: Clock, why_untrusted: str | None) -> None:
        """Do what is to be done for the series now.

        Raises:
            StoreUnavailable: the store failed; the next tick tries again.
        """
        now, self.progress = clock.now(), None
        self.changed |= self._regrading.has_ended()
        if loaded.config.service.webhook is not None and self.is_holder and why_untrusted is None:
            # By a clock that was set back, what is long over would be owed again.
            self.telling.tick(store, loaded.order("tell", series=self.name, slot_date=utc_date(now)), now=now)
        if self.worker is not None and not self._reap(self.worker, now + policy_of(loaded.config).back_off):
            self.state = self._progress(store)
            return
        with store.read() as connection:
            known = {series.name: series for series in read.all_series(connection)}
        if self.name not in known:
            self._say("not registered; run `canaryd register`")
            return
        self.blocked = None if why_untrusted is None else "clock_untrusted"
        try:
            self._hold(store, known[self.name], loaded=loaded, clock=clock)
            if why_untrusted is None:
                self._serve(store, known[self.name], loaded=loaded, clock=clock)
            else:
                self._say(f"blocked: clock_untrusted ({why_untrusted})")
        except Locked as elsewhere:
            self._lease, self.blocked = None, "not_holder"
            self._say(self._standby(store, elsewhere))

    def _standby(self, store: Store, elsewhere: Locked) -> str:
        """Return who holds the series, without the time, which moves on with each sign of life of the holder."""
        with store.read() as connection:
            lease = current_lease(connection, self.name)
        if lease is None:
            return f"standby: {elsewhere}"
        return f"standby: held by process {lease.holder.pid} on {lease.holder.host}"

    def _hold(self, store: Store, series: Series, *, loaded: Loaded, clock: Clock) -> None:
        if self._lease is not None:
            self._lease = renew_lease(store, self._lease, now=clock.now(), policy=LEASE_POLICY)
            return
        self._lease = acquire_lease(store, self.name, holder=this_process(), now=clock.now(), policy=LEASE_POLICY)
        self._close_past(store, series, loaded=loaded, clock=clock)

    def _close_past(self, store: Store, series: Series, *, loaded: Loaded, clock: Clock) -> None:
        """Close what a dead process left open and the past slots that nobody ran."""
        assert self._lease is not None
        close_past(Books(store, series, self._lease, clock=clock, due_minute=loaded.config.schedule.due_minute))

    def _serve(self, store: Store, series: Series, *, loaded: Loaded, clock: Clock) -> None:
        now, policy = clock.now(), policy_of(loaded.config)
        owing, runs, (*misses, decision) = self._owed(store, series, now=now, policy=policy)
        if misses:
            self._log_misses(misses)
            self._close_past(store, series, loaded=loaded, clock=clock)
            self.changed = True
        if isinstance(decision, Wait):
            self._not_before = None  # the rows say when, as they do to everyone else
        elif self._not_before is not None and now < self._not_before and isinstance(decision, Start):
            decision = Wait(self._not_before)
        self.next_at = next_due(decision, now, owing=owing, policy=policy)
        today = utc_date(now)
        if isinstance(decision, Start):
            self._log.info("slot starts", slot=str(today), late_s=int(decision.late.total_seconds()))
            self._begin(store, "measure", loaded=loaded, now=now)
        elif self._decided_on != today and today >= series.start_date:
            self._begin(store, "decide", loaded=loaded, now=now)
        else:
            self._stand_by(decision, refusals(runs, today))
            if isinstance(decision, Wait) and utc_date(self.next_at) > today:
                order = loaded.order("regrade", series=self.name, slot_date=today)
                self._regrading.begin_if_owed(store, series, now=now, order=order)

    def _stand_by(self, decision: Decision, refused: Mapping[str, Sequence[str]]) -> None:
        """Say what is waited for, and what blocks the slot of today where it was refused."""
        assert self.next_at is not None
        self.refused = next(iter(refused), None)
        if isinstance(decision, Refuse):
            then = f"slot {decision.slot_date} is not measured: {decision.reason}"
        else:
            then = f"next try {self.next_at:%H:%MZ}" if refused else f"idle, next run {self.next_at:%Y-%m-%d %H:%MZ}"
        self._say(f"{blocked_line(refused)}, {then}" if refused else then)

    def _owed(
        self, store: Store, series: Series, *, now: datetime, policy: SlotPolicy
    ) -> tuple[Owing, tuple[Run, ...], tuple[Decision, ...]]:
        # What was closed once stays closed, so only the slots since then are looked at.
        first = max(series.start_date, min(self._closed_before or series.start_date, utc_date(now)))
        with store.read() as connection:
            owing = Owing([arm.name for arm in read.arms(connection, self.name)], first)
            runs = read.runs(connection, self.name, first=first)
            policy = replace(policy, expected=harness.last_duration(connection, self.name))
        decisions = due_slots(runs, now, owing=owing, policy=policy)
        if len(decisions) == 1:
            self._closed_before = utc_date(now)
        return owing, runs, decisions

    def _log_misses(self, misses: Sequence[Decision]) -> None:
        for miss in misses:
            if isinstance(miss, Miss):
                self._log.warning("slot missed", slot=str(miss.slot_date), arms=list(miss.arms), reason=miss.reason)

    def _begin(self, store: Store, work: Literal["measure", "decide"], *, loaded: Loaded, now: datetime) -> None:
        """Hand the series over to a child, which gets its order once it is the holder."""
        assert self._lease is not None
        # A reload meanwhile changes nothing for a child, which has the configuration that it began with.
        self._patience_s = longest_silence_s(loaded.config.one_series(self.name).asked, loaded.config.retry)
        worker = self._start_worker(loaded.order(work, series=self.name, slot_date=utc_date(now)))
        self._heir = holder_of(worker.pid)
        try:
            hand_over(store, self._lease, to=self._heir, now=now, policy=LEASE_POLICY)
        except CanarydError:
            worker.end(timeout_s=0)
            raise
        self.worker, self._lease, self.refused = worker, None, None
        worker.begin()
        self.state = _BEGUN[work]

    def _reap(self, worker: Worker, again_at: datetime) -> bool:
        """Return whether the child has ended; what it came to decides when the next one may begin."""
        code = worker.ended()
        if code is None:
            return False
        self.worker, self.changed = None, True
        if code == Locked.exit_code:
            return True
        if worker.order.work == "measure":
            # A slot that is not complete is not tried again at once, whatever the reason was.
            self._not_before = again_at
        self._decided_on = worker.order.date
        if code != 0:
            self._log.warning("child failed", work=worker.order.work, slot=worker.order.slot_date, code=code)
        return True

    def _progress(self, store: Store) -> str:
        assert self.worker is not None
        if self.worker.order.work == "decide":
            return _BEGUN["decide"]
        with store.read() as connection:
            stored, planned = progress(connection, self.name)
        if not planned:
            return _BEGUN["measure"]  # no arm has passed its checks yet
        self.progress = stored, planned
        return f"running {stored}/{planned}"

    def stuck(self) -> bool:
        """Return whether the child lives and has been silent for longer than anything it does may take."""
        if self.worker is None or self.worker.ended() is not None:
            return False  # one that ended is looked after once the store can be used
        return self.worker.silent_s > self._patience_s

    def give_up(self, store: Store | None, *, now: datetime) -> None:
        """Let go of the series, so that another daemon may take it over at once."""
        self._regrading.stop()
        self.telling.stop()
        if store is not None:
            try:
                if (lease := self._lease or self._left_by_child(store)) is not None:
                    release_lease(store, lease, now=now)
            except CanarydError as error:
                self._log.warning("lease not released", reason=str(error))
        self._lease = None

    def _left_by_child(self, store: Store) -> Lease | None:
        """Return the lease that a child which has ended gave back, or could not give back any more."""
        if self.worker is None or self.worker.ended() is None:
            return None
        with store.read() as connection:
            lease = current_lease(connection, self.name)
        if lease is None or self._heir is None:
            return None
        return lease if any(map(lease.holder.is_same_process, (this_process(), self._heir))) else None

    def facts(self) -> dict[str, JsonValue]:
        """Return what only this process knows of the series, for `canaryd status`."""
        return {
            "state": self.state,
            "blocked": self.blocked or self.refused,
            "stored": self.progress[0] if self.progress else None,
            "planned": self.progress[1] if self.progress else None,
            "next_run": self.next_at.isoformat() if self.next_at else None,
            "webhook": self.telling.facts(),
        }

    def _say(self, state: str) -> None:
        if state != self.state:
            self._log.info("state", state=state)
        self.state = state
