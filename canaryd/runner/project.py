"""The files of a project, checked against what was registered."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from canaryd.config import Config, SeriesConfig
from canaryd.errors import CanarydError, ConfigError, Locked, MeasurementRefused, UsageError
from canaryd.files import read_bytes
from canaryd.hashing import digest
from canaryd.panel import Panel, load, lock_path
from canaryd.providers import build_provider
from canaryd.providers.base import Provider, Surroundings
from canaryd.providers.credentials import find_secret
from canaryd.records import Arm
from canaryd.runner.clock import Clock
from canaryd.runner.pinned import require_frozen, require_registered
from canaryd.store import harness, read
from canaryd.store.engine import Store
from canaryd.store.lease import Lease, LeasePolicy, acquire_lease, current_lease, hand_over, release_lease, renew_lease
from canaryd.store.process import holder_of, is_alive, this_process

LEASE_POLICY = LeasePolicy(ttl=timedelta(seconds=90), is_alive=is_alive)


def frozen_panel(config: SeriesConfig) -> Panel:
    """Return the panel of a series, which must be the one in its lock.

    Raises:
        MeasurementRefused: it differs from its lock.
        ConfigError: a file is missing or cannot be read as written.
    """
    from canaryd import graders

    panel = load(str(config.panel), graders=graders)
    require_in_lock(config, panel)
    return panel


def require_in_lock(config: SeriesConfig, panel: Panel) -> None:
    """Refuse a panel that is not the one in its lock.

    Raises:
        MeasurementRefused: it differs from its lock.
        ConfigError: there is no lock, or it cannot be read.
    """
    lock = Path(lock_path(str(config.panel)))
    if not lock.exists():
        raise ConfigError(
            f"{lock}: does not exist, so the panel is not frozen; write it with `canaryd panel freeze {config.panel}`"
        )
    require_frozen(panel, read_bytes(lock))


def is_registered(store: Store, name: str) -> bool:
    """Whether the store holds a series of that name."""
    with store.read() as connection:
        return any(series.name == name for series in read.all_series(connection))


def require_as_registered(config: SeriesConfig, panel: Panel, *, store: Store) -> None:
    """Refuse a project whose panel, registration or arms are not those of the stored series.

    Raises:
        MeasurementRefused: panel, registration, seed, or an arm's model before its first sample, are not as registered.
        UsageError: the series is not registered, or its arms are others.
    """
    with store.read() as connection:
        series = read.series(connection, config.name)
        stored = read.arms(connection, config.name)
        pinned = harness.reference_digests(connection, config.name, epoch=1)
    arms = {(arm.name, arm.role) for arm in stored}
    require_registered(
        panel,
        digest(read_bytes(config.prereg)),
        registered_panel=series.panel_digest,
        registered=series.registration_digest,
        prereg_path=str(config.prereg),
    )
    if config.seed != series.seed:
        raise MeasurementRefused(
            f"series {config.name!r} was registered with seed = {series.seed}, and the configuration says "
            f"{config.seed}; restore it: the order of the questions is not changed once there are data",
            reason="registration_mismatch",
        )
    configured = {(arm.name, arm.role) for arm in config.arms}
    if configured != arms:
        names = ", ".join(f"{name} ({role})" for name, role in sorted(arms))
        raise UsageError(
            f"series {config.name!r} was registered with the arms {names}; restore them, or register a new series"
        )
    # From the first measurement on the harness fingerprint guards the model; before it only the registration knows.
    wanted = {arm.name: (arm.provider, arm.model) for arm in config.arms}
    for arm in stored:
        if arm.name not in pinned and wanted[arm.name] != (arm.provider, arm.model):
            raise MeasurementRefused(
                f"arm {arm.name!r} was registered as {arm.provider} {arm.model}, and {config.name!r} would ask "
                f"{' '.join(wanted[arm.name])}; restore it, or register a new series",
                reason="registration_mismatch",
            )


@contextmanager
def held(store: Store, series: str, *, clock: Clock) -> Iterator[Lease]:
    """Hold the lease of a series for a block of work; one that the parent process handed over goes back to it.

    Raises:
        Locked: another living process holds it.
    """
    me, parent = this_process(), os.getppid()
    with store.read() as connection:
        found = current_lease(connection, series)
    was_handed_over = found is not None and found.holder.is_same_process(me) and clock.now() < found.expires_at
    lease = acquire_lease(store, series, holder=me, now=clock.now(), policy=LEASE_POLICY)
    try:
        yield lease
    finally:
        if was_handed_over and os.getppid() == parent:
            with suppress(Locked):
                hand_over(store, lease, to=holder_of(parent), now=clock.now(), policy=LEASE_POLICY)
        else:
            release_lease(store, lease, now=clock.now())


async def keep_lease(store: Store, lease: Lease, *, clock: Clock) -> None:
    """Renew a lease until cancelled; where it is lost, the next write's own check stops the work with the reason."""
    with suppress(CanarydError):
        while True:
            await asyncio.sleep(LEASE_POLICY.ttl / timedelta(seconds=3))
            await asyncio.to_thread(renew_lease, store, lease, now=clock.now(), policy=LEASE_POLICY)


def provider_builder(config: Config, panel: Panel) -> Callable[[Arm], Provider]:
    """Return the function that builds an arm's provider with its key, looked up when it is called."""

    def build(arm: Arm) -> Provider:
        secret = find_secret(arm.credential, config.credentials, env=os.environ) if arm.credential else None
        return build_provider(arm, Surroundings(env=os.environ, secret=secret, items=panel.items))

    return build
