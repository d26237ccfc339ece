"""A seeded model that is not there: for demos, tests and dry runs of a registration."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import date
from typing import Any

from canaryd.providers.base import Surroundings, WireRequest, bad_option
from canaryd.providers.simulated_answers import answer_pair
from canaryd.providers.simulated_model import FAULTS, Era, SimulatedModel, shift_for_drop
from canaryd.records import Arm, Ask, Reply, SampleKey

#: They are part of the wire request, as everywhere; the model that is not there does not react to them.
PARAMS = frozenset({"max_tokens", "temperature", "top_p", "top_k", "seed", "effort", "response_format", "json_mode"})
OPTIONS = frozenset({"seed", "eras", "faults", "abilities"})
_ERA_KEYS = frozenset({"from", "drop", "logit_shift", "token_factor", "resolved_model", "says"})


def build(arm: Arm, surroundings: Surroundings) -> SimulatedProvider:
    """Return the provider of an arm; its options are `seed`, `abilities`, `faults` and `eras`.

    `abilities` maps item ids to probabilities, `faults` maps kinds to rates. An era is
    `{from = "2026-02-01", drop = 0.15, token_factor = 0.67}`, where `drop` is the mean over the panel as a fraction;
    `logit_shift` may stand in its place, `resolved_model` rolls the name that the model reports, and `says` is the
    label that it gives every answer as a judge.

    Raises:
        ConfigError: an option cannot be read, or an item's grader has no simulated answers.
    """
    seed = arm.options.get("seed", 1)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise bad_option(arm, "seed", why=f"is {seed!r}, but must be a whole number")
    answers = {item.item_id: answer_pair(item) for item in surroundings.items}
    model = SimulatedModel(
        model=arm.model,
        arm=arm.name,
        seed=seed,
        answers=answers,
        abilities=_rates(arm, "abilities", allowed=answers),
        faults=_rates(arm, "faults", allowed=FAULTS),
    )
    if sum(model.faults.values()) > 1:
        raise bad_option(arm, "faults", why="add up to more than 1")
    return SimulatedProvider(arm, dataclasses.replace(model, eras=_eras(arm, model)))


class SimulatedProvider:
    """A thin shell around a SimulatedModel that counts the attempts of each question."""

    def __init__(self, arm: Arm, model: SimulatedModel) -> None:
        self._arm = arm
        self._model = model
        self._attempts: Counter[SampleKey] = Counter()

    async def ask(self, ask: Ask) -> Reply:
        """Return the reply to one question.

        Raises:
            ProviderError: a fault was drawn.
        """
        key = SampleKey(ask.series, ask.arm, ask.slot_date, ask.item_id, ask.replicate)
        self._attempts[key] += 1
        return self._model.answer(ask, attempt=self._attempts[key])

    def wire_request(self, ask: Ask) -> WireRequest:
        """Return what a real provider of the same arm would be sent, in plain form."""
        return WireRequest(
            "ASK",
            "simulated",
            {"model": self._arm.model, "system": ask.system, "prompt": ask.prompt, **self._arm.params},
        )

    def tool_versions(self) -> Mapping[str, str]:
        """Return nothing: no tool stands between."""
        return {}

    async def aclose(self) -> None:
        """Close nothing."""


def _eras(arm: Arm, model: SimulatedModel) -> tuple[Era, ...]:
    entries = arm.options.get("eras", [])
    if not isinstance(entries, list):
        raise bad_option(arm, "eras", why="must be a list of tables")
    return tuple(_era(arm, model, entry=entry, where=f"eras[{n}]") for n, entry in enumerate(entries))


def _era(arm: Arm, model: SimulatedModel, *, entry: Any, where: str) -> Era:
    if not isinstance(entry, dict) or not entry.keys() <= _ERA_KEYS or {"drop", "logit_shift"} <= entry.keys():
        raise bad_option(
            arm,
            where,
            why=f"is {entry!r}, but must be a table of from, drop or logit_shift, and the rest of "
            f"{', '.join(sorted(_ERA_KEYS))}",
        )
    try:
        first = date.fromisoformat(str(entry.get("from")))
        shift = float(entry.get("logit_shift", 0.0))
        if "drop" in entry:
            shift = shift_for_drop([model.ability(item_id) for item_id in model.answers], float(entry["drop"]))
        return Era(first, shift, float(entry.get("token_factor", 1.0)), entry.get("resolved_model"), entry.get("says"))
    except (TypeError, ValueError) as error:
        raise bad_option(arm, where, why=f"cannot be read: {error}") from None


def _rates(arm: Arm, option: str, *, allowed: Collection[str]) -> dict[str, float]:
    values = arm.options.get(option, {})
    if not isinstance(values, dict):
        raise bad_option(arm, option, why="must be a table of numbers between 0 and 1")
    rates = {}
    for name, value in values.items():
        if name not in allowed:
            raise bad_option(
                arm, f"{option}.{name}", why=f"is unknown; allowed: {', '.join(sorted(allowed)) or 'none'}"
            )
        if not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise bad_option(arm, f"{option}.{name}", why=f"is {value!r}, but must be a number between 0 and 1")
        rates[name] = float(value)
    return rates
