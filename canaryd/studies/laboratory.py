"""What a study is done with: a series of the project, its registration as written, a panel and the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from canaryd import graders, sandbox
from canaryd import prereg as registration
from canaryd.config import Config, SeriesConfig
from canaryd.errors import ConfigError, UsageError
from canaryd.files import read_bytes
from canaryd.panel import Panel, load
from canaryd.prereg import Prereg
from canaryd.providers.base import Provider
from canaryd.records import Arm
from canaryd.runner.clock import Clock, clock_of
from canaryd.runner.project import frozen_panel, is_registered, provider_builder, require_as_registered
from canaryd.store.engine import Store, open_store
from canaryd.store.studies import Stage, StudyKey, study_target
from canaryd.windows import utc_date


@dataclass(frozen=True, slots=True)
class Laboratory:
    """The surroundings of a study."""

    config: Config
    series: SeriesConfig
    prereg: Prereg
    panel: Panel
    store: Store
    clock: Clock
    build_provider: Callable[[Arm], Provider]
    backend: sandbox.Backend

    @property
    def today(self) -> date:
        """The UTC date."""
        return utc_date(self.clock.now())

    def key(self, arm: Arm, stage: Stage) -> StudyKey:
        """Return the identity of a stage's study of an arm on the panel."""
        return StudyKey(self.series.name, stage, arm.name, self.panel.digest, study_target(arm))

    def arm(self, name: str | None) -> Arm:
        """Return an arm of the series, the tracked one for None.

        Raises:
            UsageError: there is no such arm.
        """
        if name is None:
            return self.series.tracked
        for arm in self.series.arms:
            if arm.name == name:
                return arm
        names = ", ".join(arm.name for arm in self.series.arms)
        raise UsageError(f"series {self.series.name!r} has no arm {name!r}; there are {names}")


@contextmanager
def laboratory(config: Config, series: SeriesConfig, *, pool: Path | None = None) -> Iterator[Laboratory]:
    """Open the laboratory of a series on a pool, or on its frozen panel for None.

    Raises:
        ConfigError: registration or panel cannot be read as written.
        MeasurementRefused: the series' panel is not the one in its lock, or panel or registration are not those that
            the series was registered with.
        StoreUnavailable: the store cannot be used.
    """
    protocol = registration.parse(read_bytes(series.prereg), source=str(series.prereg))
    panel = frozen_panel(series) if pool is None else load(str(pool), graders=graders)
    if not panel.measured:
        raise ConfigError(f"{panel.path}: has no item that is measured; add items")
    with open_store(config.store_url, create=True) as store:
        if pool is None and is_registered(store, series.name):
            require_as_registered(series, panel, store=store)
        yield Laboratory(
            config=config,
            series=series,
            prereg=protocol,
            panel=panel,
            store=store,
            clock=clock_of(config),
            build_provider=provider_builder(config, panel),
            backend=sandbox.default(),
        )
