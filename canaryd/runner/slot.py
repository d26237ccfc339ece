"""One slot of one series: what is measured on a date, and with what."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date

from canaryd import sandbox
from canaryd.config import Config, Price, Retry, SeriesConfig
from canaryd.panel import Panel
from canaryd.providers.base import Provider
from canaryd.records import Arm, Ask
from canaryd.runner.clock import Clock, clock_of
from canaryd.runner.execute import Lane
from canaryd.runner.judge import JudgeBench, JudgePlan, judge_plan, open_judge
from canaryd.runner.plan import plan_asks, without
from canaryd.runner.project import frozen_panel, provider_builder, require_as_registered
from canaryd.store import read, samples
from canaryd.store.engine import Store
from canaryd.store.epochs import Epoch, epoch_on, epochs
from canaryd.store.rows import Series


@dataclass(frozen=True, slots=True)
class Slot:
    """What is measured on a date, and with what; panel and registration are those that were registered."""

    config: SeriesConfig
    series: Series
    panel: Panel
    slot_date: date
    epoch: Epoch
    store: Store
    clock: Clock
    retry: Retry
    due_minute: int
    build_provider: Callable[[Arm], Provider]
    backend: sandbox.Backend
    prices: tuple[Price, ...] = ()
    judge: JudgePlan | None = None

    def lanes(self, arms: Collection[str]) -> dict[str, Lane]:
        """Return a lane for each of the named arms, its provider built.

        Raises:
            ConfigError, CredentialsError: an arm cannot be asked as configured.
        """
        return {arm.name: Lane(arm, self.build_provider(arm)) for arm in self.config.arms if arm.name in arms}

    def open_judge(self) -> JudgeBench | None:
        """Return the judge, ready to be asked; None where no item is judged.

        Raises:
            ConfigError, CredentialsError: it cannot be asked as configured.
        """
        if self.judge is None:
            return None
        provider = self.build_provider(self.judge.config.arm)
        return open_judge(self.judge, provider, retry=self.retry, clock=self.clock)

    def owed(self) -> tuple[Ask, ...]:
        """Return the asks of the slot whose samples are not final yet, all arms interleaved."""
        name, arms = self.series.name, [arm.name for arm in self.config.arms]
        planned = plan_asks(
            self.panel.items,
            arms=arms,
            series=name,
            slot_date=self.slot_date,
            seed=self.series.seed,
            system=self.panel.system,
        )
        with self.store.read() as connection:
            final = [samples.final_samples(connection, name, arm=arm, slot_date=self.slot_date) for arm in arms]
        return without(planned, frozenset().union(*final))


def slot_of(config: Config, series_config: SeriesConfig, *, store: Store, slot_date: date) -> Slot:
    """Return a slot of a project's series, everything that was pinned checked.

    Raises:
        MeasurementRefused: panel or registration are not those that were registered.
        ConfigError: a file is missing or cannot be read as written.
        UsageError: the series is not registered, or its arms are others.
    """
    slot = unchecked_slot(config, series_config, store=store, slot_date=slot_date, panel=frozen_panel(series_config))
    require_as_registered(series_config, slot.panel, store=store)
    return slot


def unchecked_slot(config: Config, series_config: SeriesConfig, *, store: Store, slot_date: date, panel: Panel) -> Slot:
    """Return a slot of a project's series whatever its files are, for those who only look.

    Raises:
        ConfigError: the judge cannot be used as configured.
        UsageError: the series is not registered.
    """
    with store.read() as connection:
        series = read.series(connection, series_config.name)
        known = epochs(connection, series)
    return Slot(
        config=series_config,
        series=series,
        panel=panel,
        slot_date=slot_date,
        epoch=epoch_on(known, slot_date),
        store=store,
        clock=clock_of(config),
        retry=config.retry,
        due_minute=config.schedule.due_minute,
        build_provider=provider_builder(config, panel),
        backend=sandbox.default(),
        prices=config.prices,
        judge=judge_plan(series_config, panel),
    )
