"""The registered numbers of the studies beside a series: calibration of a pool, validation of the instrument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from canaryd.records import JsonValue

SeenIn: TypeAlias = Literal["score", "tokens", "outcomes"]


@dataclass(frozen=True, slots=True)
class CalibrationParams:
    """How a pool is screened: an item is eligible when its `screen_samples` scores sum to keep_min .. keep_max."""

    screen_samples: int
    keep_min: float
    keep_max: float
    confirm_samples: int


@dataclass(frozen=True, slots=True)
class PositiveControl:
    """A change that the instrument must see: an arm of the series (None: the tracked one) with something set anew."""

    name: str
    arm: str | None = None
    model: str | None = None
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    options: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ValidationParams:
    """The pass criterion of a validation; every test of it is at `alpha`.

    `samples` are those of each item and arm in one session; a positive control is seen when one of the streams of
    `seen_in` shows it.
    """

    samples: int
    alpha: float
    seen_in: tuple[SeenIn, ...]
    controls: tuple[PositiveControl, ...]
