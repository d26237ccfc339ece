"""The service: every tick renews leases, starts and reaps children, takes the snapshot and gives a sign of life."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import structlog

from canaryd import __version__
from canaryd.config import Config
from canaryd.daemon.clocks import ClockWatch
from canaryd.daemon.copies import Copies, newest_s
from canaryd.daemon.desk import Desk, Loaded
from canaryd.daemon.keys import key_problems
from canaryd.daemon.logs import set_level
from canaryd.daemon.notify import Notifier
from canaryd.daemon.reload import reload
from canaryd.daemon.worker import Order, Worker
from canaryd.errors import CanarydError, StoreUnavailable
from canaryd.hashing import digest
from canaryd.metrics.collector import ProcessMetrics
from canaryd.metrics.money import purse_of
from canaryd.metrics.snapshot import take_snapshot
from canaryd.metrics.values import Snapshot, with_blocked
from canaryd.records import JsonValue
from canaryd.runner.clock import Clock, clock_of
from canaryd.runner.trust import clock_problem
from canaryd.schedule import policy_of
from canaryd.store import acknowledgements
from canaryd.store.check import require_whole
from canaryd.store.engine import Store, open_store, parse_url, revision, shown
from canaryd.store.place import Place
from canaryd.store.schema import REVISIONS
from canaryd.windows import utc_date

TICK_S = 30.0
#: A demo's calendar moves when its file is written, so it is looked at more often.
DEMO_TICK_S = 1.0
REFRESH_S = 300.0
STALE_TICK_S = 120.0
DRAIN_S = 60.0


class Trouble(NamedTuple):
    """Why nothing can be measured at all: the blocked reason of the contract, and a sentence."""

    blocked: str
    text: str

    @property
    def state(self) -> str:
        """It as a line of status."""
        return f"blocked: {self.blocked} ({self.text})"


class Service:
    """The resident daemon, without the threads and sockets around it. `tick` and `reload` never run at once."""

    def __init__(self, loaded: Loaded, *, metrics: ProcessMetrics, notifier: Notifier) -> None:
        self.metrics = metrics
        self._taken: Snapshot | None = None
        self._acknowledged: int | None = None
        self._trouble: Trouble | None = None
        self._loaded = loaded
        self._notifier = notifier
        self._log = structlog.get_logger("canaryd.daemon")
        self._desks = {series.name: Desk(series, self._start_worker) for series in loaded.config.series}
        self._copies = Copies(self._start_worker)
        self._is_config_current = self._is_web_config_current = True
        self._store: Store | None = None
        self._place: Place | None = None
        self._clocks = ClockWatch()
        self._lock = threading.Lock()
        self._ticked_s = time.monotonic()  # a first tick that never ends counts from the start
        self._began_at = datetime.now(UTC)
        self._in_force(loaded)

    def open(self) -> None:
        """Open the store, look whether it is whole, and take the first snapshot.

        Raises:
            StoreUnavailable: the store is missing or damaged, or its schema is not current.
        """
        self._store = open_store(self._loaded.config.store_url)
        self._place = self._store.place
        require_whole(self._store)
        self._refresh(self._store)
        self._out_of_trouble()

    def tick(self) -> None:
        """Do what is due."""
        with self._lock:
            self._look_at_clocks()
            before = self._trouble
            try:
                self._tick_store()
                if self._trouble is before:  # and no child has met another meanwhile
                    self._out_of_trouble()
                self._copy_store()
            except StoreUnavailable as error:
                self._store_failed(error)
            except CanarydError as error:
                self._log.error("tick failed", reason=str(error))
            for name, desk in self._desks.items():
                self.metrics.lease_held.labels(name).set(desk.is_holder)
            self._ticked_s = time.monotonic()
            self.metrics.last_tick.set(time.time())
            self._notifier.status(self.status())
            if self._notifier.watchdog_s is not None and self._why_stuck() is None:
                self._notifier.alive()

    def reload(self, *, reload_web: Callable[[], None]) -> None:
        """Read the configuration and that of the web server again; what cannot be taken over leaves what is in force.

        `reload_web` raises a ConfigError where the web server refuses.
        """
        with self._lock:
            self._notifier.reloading()
            try:
                loaded = reload(self._loaded)
                reload_web()
                self._loaded = loaded
                self._in_force(self._loaded)
                self._copies.try_again()
                set_level(self._loaded.level)
                self._log.info("configuration reloaded", config=str(self._loaded.config.path))
                self.warn_of_keys()
            except CanarydError as error:
                self._is_config_current = False
                self._show_reload()
                self._log.error("configuration not reloaded", reason=str(error))
            self._notifier.ready()

    def warn_of_keys(self) -> None:
        """Say which keys the configuration in force names in vain: nothing else does before they are needed."""
        for problem in key_problems(self._loaded.config):
            self._log.warning("key not usable", reason=problem)

    def show_web_config(self, is_current: bool) -> None:
        """Show whether the web server took a change of its configuration over; called from its thread."""
        self._is_web_config_current = is_current
        self._show_reload()

    def stop(self) -> None:
        """Let calls in flight end, keep their slots open, and give the leases back."""
        self._notifier.stopping(extend_s=DRAIN_S + 30)
        with self._lock:
            workers = [desk.worker for desk in self._desks.values() if desk.worker is not None]
            for worker in workers:
                worker.drain()
            deadline_s = time.monotonic() + DRAIN_S
            for worker in workers:
                code = worker.end(timeout_s=max(0.0, deadline_s - time.monotonic()))
                self._log.info("child ended", series=worker.order.series, code=code)
            self._copies.stop()
            for desk in self._desks.values():
                desk.give_up(self._store, now=self._clock.now())
            if self._store is not None:
                self._store.close()
                self._store = None

    def status(self) -> str:
        """Return the line for `systemctl status`."""
        if self._trouble is not None:
            return self._trouble.state
        if len(self._desks) == 1:
            return next(iter(self._desks.values())).state
        return "; ".join(f"{name}: {desk.state}" for name, desk in self._desks.items())

    def facts(self) -> dict[str, JsonValue]:
        """Return what only this process knows, for `canaryd status`."""
        trouble, in_the_way = self._trouble, dict[str, JsonValue]()
        if trouble is not None:
            in_the_way = {"state": trouble.state, "blocked": trouble.blocked}
        return {
            "version": __version__,
            "pid": os.getpid(),
            "running_since": self._began_at.isoformat(),
            "store": shown(parse_url(self._loaded.config.store_url)),
            "copies": self._copies.failures(self._loaded.config.service),
            "series": {name: {**desk.facts(), **in_the_way} for name, desk in self._desks.items()},
        }

    @property
    def snapshot(self) -> Snapshot | None:
        """The latest snapshot of the store, with what this process is in the way of."""
        if self._taken is None:
            return None
        trouble = self._trouble
        own = {name: trouble.blocked if trouble else desk.blocked for name, desk in self._desks.items()}
        return with_blocked(self._taken, {name: reason for name, reason in own.items() if reason is not None})

    def why_unhealthy(self) -> str | None:
        """Return why the daemon is not healthy, None when it is."""
        silent_s = time.monotonic() - self._ticked_s
        return f"the scheduler has not ticked for {silent_s:.0f} s" if silent_s >= STALE_TICK_S else None

    def why_unready(self) -> str | None:
        """Return why the daemon cannot serve, None when it can."""
        if self._taken is None:
            return "there is no snapshot of the store yet"
        return self._trouble.text if self._trouble is not None else None

    @property
    def _clock(self) -> Clock:
        return clock_of(self._loaded.config)

    def _tick_store(self) -> None:
        store, clock = self._usable_store(), self._clock
        untrusted = clock_problem(clock, store)
        with store.read() as connection:
            given = acknowledgements.newest(connection)
        for desk in self._desks.values():
            desk.tick(store, self._loaded, clock=clock, why_untrusted=untrusted)
        age_s = time.time() - self._taken.taken_s if self._taken else REFRESH_S
        is_silenced_anew, self._acknowledged = given != self._acknowledged, given
        if age_s >= REFRESH_S or age_s < 0 or is_silenced_anew or any(desk.changed for desk in self._desks.values()):
            self._refresh(store)

    def _usable_store(self) -> Store:
        """Return the store that this daemon began with, once it is there, has room, and takes writes again."""
        if self._place is not None:
            self._place.require()
            self._place.require_room()
        if self._store is None:
            self._store = open_store(self._loaded.config.store_url)
        if self._trouble is not None:
            self._store.require_writes()
        return self._store

    def _copy_store(self) -> None:
        """See that the store is copied once a day, where the configuration says so."""
        backup = self._loaded.config.service.backup
        if backup is None:
            return
        order = self._loaded.order("copy", series="", slot_date=utc_date(self._clock.now()))
        self._copies.tick(backup, order, is_quiet=all(desk.worker is None for desk in self._desks.values()))
        self.metrics.show_copy(newest_s(backup))

    def _refresh(self, store: Store) -> None:
        """Take the snapshot anew; a store that was upgraded meanwhile is not read with the old schema."""
        config = self._loaded.config
        if not self._is_current():
            raise StoreUnavailable(f"store {store.name} has another schema than this canaryd; restart the daemon")
        names = [series.name for series in config.series]
        self._taken = take_snapshot(
            store, names, policy=policy_of(config), now=self._clock.now(), purse=purse_of(config)
        )
        for desk in self._desks.values():
            desk.changed = False

    def _is_current(self) -> bool:
        """Return whether the store has this canaryd's schema; of a store that is not there, nothing else is known."""
        return revision(parse_url(self._loaded.config.store_url)) in {None, REVISIONS[-1]}

    def _store_failed(self, error: StoreUnavailable) -> None:
        try:
            if self._place is not None:
                self._place.require()  # to look into another file would mix it with the log of this one
            current = self._is_current()
        except StoreUnavailable:
            current = True  # nor of one that cannot be reached
        self.metrics.schema_current.set(current)
        self._in_trouble(Trouble("store_unavailable" if current else "schema_outdated", str(error)))
        if self._store is not None:
            self._store.close()
            self._store = None

    def _in_trouble(self, trouble: Trouble) -> None:
        """Say that the store cannot be used; a tick that finds it usable again takes that back."""
        if self._trouble is None:
            self._log.error("store cannot be used", reason=trouble.text)
        self._trouble = trouble
        self.metrics.store_up.set(0)

    def _out_of_trouble(self) -> None:
        if self._trouble is not None:
            self._log.info("store can be used again")
        self._trouble = None
        self.metrics.store_up.set(1)
        self.metrics.schema_current.set(1)

    def _look_at_clocks(self) -> None:
        for disturbance in self._clocks.look():
            self._log.warning("clocks disagree", what=disturbance)
            if disturbance == "clock_step":
                self.metrics.clock_jumps.inc()

    def _why_stuck(self) -> str | None:
        stuck = [name for name, desk in self._desks.items() if desk.stuck()]
        return f"no sign of life from the child of {', '.join(stuck)}" if stuck else None

    def _in_force(self, loaded: Loaded) -> None:
        self.metrics.loaded_config.clear()
        self.metrics.loaded_config.labels(digest(loaded.text.encode())).set(1)
        self.metrics.reloaded_at.set(time.time())
        self._is_config_current = True
        self._show_reload()

    def _show_reload(self) -> None:
        self.metrics.reload_successful.set(self._is_config_current and self._is_web_config_current)

    def _start_worker(self, order: Order) -> Worker:
        return Worker(order, on_event=partial(self._on_event, order.series))

    def _on_event(self, series: str, event: Mapping[str, Any]) -> None:
        """Count what a child reports; called from the thread that reads it."""
        kind = event["event"]
        if kind == "call":
            self.metrics.count_call(series, event)
        elif kind == "program":
            self.metrics.count_program(event)
        elif kind == "message":
            self.metrics.count_message(failed=event["failed"] is not None)
            self._desks[series].telling.note(event["notice"], event["failed"])
        elif kind == "copy":
            self._copies.note(event["table"], event["failed"])
        elif kind == "write":
            self.count_write(event)
        elif kind == "log":
            self.metrics.log_messages.labels(event["level"]).inc()

    def count_write(self, event: Mapping[str, Any]) -> None:
        """Count a transaction of this process or of a child; one that failed is trouble until another is committed."""
        if event["failed"] is None:
            self.metrics.store_writes.inc()
            return
        self.metrics.store_write_failures.inc()
        self._in_trouble(Trouble("store_unavailable", f"the store takes no writes: {event['failed']}"))


def tick_s(config: Config, watchdog_s: float | None) -> float:
    """Return how often to tick: every 30 s, and twice in the time that the watchdog allows."""
    longest = DEMO_TICK_S if config.demo_clock is not None else TICK_S
    return min([longest, *([watchdog_s / 2] if watchdog_s else [])])
