"""What is analysed: a registered series in one of its epochs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sqlalchemy import Connection

from canaryd import prereg as registration
from canaryd.prereg import Prereg
from canaryd.runner.drift import Harnesses, harnesses
from canaryd.stats.evaluable import PanelShape
from canaryd.store import read
from canaryd.store.epochs import Epoch, epochs
from canaryd.store.judges import judged_items
from canaryd.store.rows import Series
from canaryd.windows import Grid


@dataclass(frozen=True, slots=True)
class Subject:
    """A registered series in one epoch: arms by role, the items of the estimates, protocol, grid and harnesses.

    `replicas` are printed and enter no formula; `judged` are the items that a judge grades and that stand beside the
    estimates, each with its cluster; `last` is the epoch's last slot date, None while it goes on.
    """

    series: Series
    prereg: Prereg
    tracked: str
    controls: tuple[str, ...]
    replicas: tuple[str, ...]
    panel: PanelShape
    item_ids: tuple[str, ...]
    judged: Mapping[str, str]
    epoch: Epoch
    last: date | None
    grid: Grid
    harnesses: Harnesses

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that take part in decisions, the tracked one first."""
        return (self.tracked, *self.controls)

    def ended_windows(self, now: datetime) -> range:
        """Return the indices of the epoch's decision windows that have ended; one that the epoch cut off is none."""
        index = self.grid.last_ended(now)
        while index > 0 and self.last is not None and self.grid.window(index).last > self.last:
            index -= 1
        return range(1, index + 1)


def load_subjects(connection: Connection, name: str) -> tuple[Subject, ...]:
    """Return a series in each of its epochs, from its own rows: the stored registration decides, not a file.

    Raises:
        UsageError: the series is not registered.
    """
    series = read.series(connection, name)
    protocol = registration.parse(read.registration(connection, name), source=f"registration of {name}")
    arms = read.arms(connection, name)
    beside = {item_id for item_id, is_measured in judged_items(connection, name).items() if not is_measured}
    panel = read.panel_items(connection, series.panel_digest)
    items = [item for item in panel if not item.sentinel and item.item_id not in beside]
    known = epochs(connection, series)
    ends = [later.first_date - timedelta(days=1) for later in known[1:]]
    return tuple(
        Subject(
            series=series,
            prereg=protocol,
            tracked=next(arm.name for arm in arms if arm.role == "tracked"),
            controls=tuple(arm.name for arm in arms if arm.role == "control"),
            replicas=tuple(arm.name for arm in arms if arm.role == "replica"),
            panel=PanelShape(len(items), {item.item_id: item.cluster for item in items}),
            item_ids=tuple(item.item_id for item in items),
            judged={item.item_id: item.cluster for item in panel if item.item_id in beside},
            epoch=epoch,
            last=last,
            grid=Grid(epoch.first_date, protocol.rule.baseline_days, protocol.rule.window_days),
            harnesses=harnesses(connection, name, epoch=epoch),
        )
        for epoch, last in zip(known, [*ends, None], strict=True)
    )


def load_subject(connection: Connection, name: str) -> Subject:
    """Return a series in its newest epoch.

    Raises:
        UsageError: the series is not registered.
    """
    return load_subjects(connection, name)[-1]
