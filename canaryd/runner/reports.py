"""What an application says of its own configuration: asked before the first item and after the last, and kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from canaryd.providers.base import ReportsConfiguration
from canaryd.records import Ask, GraderSpec, Item, JsonValue
from canaryd.runner.execute import Lane, answered, turn
from canaryd.runner.slot import Slot

#: The option that says where an application reports its configuration.
CONFIG_PATH = "config_path"
#: The trivial task.
CANARY = Item(
    item_id="pre-flight",
    family=None,
    cluster="pre-flight",
    prompt="Reply with <answer>ok</answer> and nothing else.",
    target="ok",
    grader=GraderSpec("exact"),
)


@dataclass(frozen=True, slots=True)
class Reports:
    """The first configuration that an application reported in a run, which is the run's, and the last one."""

    first: Mapping[str, JsonValue]
    last: Mapping[str, JsonValue]


def canary_ask(slot: Slot, arm: str) -> Ask:
    """Return the question of the trivial task."""
    return Ask(slot.series.name, arm, slot.slot_date, CANARY.item_id, 0, slot.panel.system, CANARY.prompt)


def is_asked_again(lane: Lane) -> bool:
    """Whether an arm's application reports its configuration, so that it is asked once more after the last item."""
    return CONFIG_PATH in lane.arm.options and isinstance(lane.provider, ReportsConfiguration)


async def ask_again(slot: Slot, lanes: Mapping[str, Lane]) -> None:
    """Send the trivial task once more to every application that reports its configuration.

    An answer that fails, be it for a configuration that is not the run's, is no failure of the run.
    """
    for name, lane in lanes.items():
        if is_asked_again(lane) and not lane.stopped and not lane.config_error:
            ask = canary_ask(slot, name)
            if await turn(ask, lane, clock=slot.clock) is None:
                await answered(ask, lane, retry=slot.retry, clock=slot.clock)


def reports_of(lane: Lane) -> Reports | None:
    """Return what an arm's application reported in a run, None where it reported nothing."""
    provider = lane.provider
    if not isinstance(provider, ReportsConfiguration) or provider.first_report is None:
        return None
    return Reports(provider.first_report, provider.last_report or provider.first_report)
