"""Registering a series: the rule is checked against the panel, hashed and stored before any data exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

from canaryd import prereg as registration
from canaryd.config import Config, SeriesConfig
from canaryd.errors import ConfigError, StoreUnavailable
from canaryd.files import read_bytes
from canaryd.panel import Panel, read
from canaryd.prereg import Prereg
from canaryd.records import JsonValue
from canaryd.runner.characteristics import short_simulation
from canaryd.runner.judge import judge_plan
from canaryd.runner.sentinel_plan import planned_false_alarms
from canaryd.store import studies, write
from canaryd.store.engine import Store, open_store
from canaryd.store.rows import PanelFiles, Plan


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered series: its protocol, the warnings about it, and its simulated operating characteristics as JSON.

    `sentinel_false_alarms` is what its sentinels are expected to raise in a year; None where it has none.
    """

    prereg: Prereg
    start_date: date
    warnings: tuple[str, ...]
    simulation: JsonValue
    sentinel_false_alarms: float | None


def confirmed_information(store: Store, config: SeriesConfig) -> dict[str, float]:
    """Return the variance of one sample of each item that was confirmed on the tracked arm, unbiased, by item id."""
    from canaryd.stats.calibration import ItemScores

    with store.read() as connection:
        scores = studies.confirmed_scores(connection, config.name, arm=config.tracked)
    found = {item_id: ItemScores(of_item).information for item_id, of_item in scores.items()}
    return {item_id: information for item_id, information in found.items() if information is not None}


def known_information(config: Config, series: SeriesConfig) -> dict[str, float]:
    """Return what the store of a project confirmed of a series' items, nothing while there is no store to read."""
    try:
        with open_store(config.store_url) as store:
            return confirmed_information(store, series)
    except StoreUnavailable:
        return {}


def check_registration(
    config: SeriesConfig, panel: Panel, *, information: Mapping[str, float]
) -> tuple[Prereg, tuple[str, ...]]:
    """Return the registration of a series and the warnings about using it on this panel.

    `information` holds the variance of one sample of the items of which it is known; the others count as coin flips.

    Raises:
        ConfigError: it cannot be read as written, or no change could ever be declared with it on this panel.
    """
    from canaryd.stats.reach import PlannedPanel

    protocol = registration.parse(read_bytes(config.prereg), source=str(config.prereg))
    _require_judge_rule(config, panel, protocol=protocol)
    measured = protocol.measured(panel.items)
    planned = PlannedPanel(
        clusters={item.item_id: item.cluster for item in measured},
        replicates={item.item_id: item.replicates for item in measured},
        information={item.item_id: information[item.item_id] for item in measured if item.item_id in information},
        controls={
            arm.name: frozenset(item.item_id for item in measured) for arm in config.arms if arm.role == "control"
        },
    )
    return protocol, (*registration.check_plan(protocol, planned), *_absent_controls(config, protocol))


def register(config: SeriesConfig, panel: Panel, *, store: Store, now: datetime, start_date: date) -> Registered:
    """Store a series with its registration, arms, panel and operating characteristics; day 1 is `start_date`.

    Raises:
        ConfigError: the registration is refused, or a sentinel could never move; nothing was stored.
        UsageError: a series of that name is registered already.
    """
    protocol, warnings = check_registration(config, panel, information=confirmed_information(store, config))
    sentinel_false_alarms = planned_false_alarms(panel, protocol)
    simulation = _simulation(config, panel, protocol=protocol)
    content, system = read(str(config.panel))
    plan = Plan(
        series=config.name,
        registered_at=now,
        start_date=start_date,
        seed=config.seed,
        registration=read_bytes(config.prereg),
        registration_digest=protocol.digest,
        panel=PanelFiles(panel.digest, panel.name, panel.version, content, system),
        items=panel.items,
        arms=config.arms,
        simulation=simulation,
        judged_measured=protocol.judge is not None and protocol.judge.primary,
    )
    write.register_series(store, plan)
    return Registered(protocol, start_date, warnings, simulation, sentinel_false_alarms)


def _require_judge_rule(config: SeriesConfig, panel: Panel, *, protocol: Prereg) -> None:
    """Refuse judged items without a judge that is named and held to readable anchors, or without a rule about it."""
    if judge_plan(config, panel) is not None and protocol.judge is None:
        raise ConfigError(
            f"{config.prereg}: {panel.path} has items that a judge grades, so the table [judge] is required: register "
            "whether they are `primary`, and `max_anchors_moved`"
        )


def _absent_controls(config: SeriesConfig, protocol: Prereg) -> tuple[str, ...]:
    """Return a warning for each positive control of an arm that the series does not have."""
    names = [arm.name for arm in config.arms]
    return tuple(
        f"{config.prereg}: validation.controls names the arm {control.arm!r}, which series {config.name!r} does not "
        f"have (it has {', '.join(names)}); mend it before you register, or this series cannot be validated"
        for control in protocol.validation.controls
        if control.arm is not None and control.arm not in names
    )


def _simulation(config: SeriesConfig, panel: Panel, *, protocol: Prereg) -> JsonValue:
    has_control = any(arm.role == "control" for arm in config.arms)
    try:
        return short_simulation(protocol, protocol.measured(panel.items), has_control=has_control)
    except ValueError as error:
        raise ConfigError(f"{config.prereg}: planning cannot be simulated on this panel: {error}") from None
