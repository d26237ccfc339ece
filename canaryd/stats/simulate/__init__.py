"""Operating characteristics of a registration by simulation, before it starts."""

from canaryd.stats.simulate.characteristics import (
    Delays,
    Detection,
    FalseAlarms,
    OperatingCharacteristics,
    Progress,
    Share,
    operating_characteristics,
)
from canaryd.stats.simulate.plan import DayShock, Scenario, SimulationPlan, Truth

__all__ = [
    "DayShock",
    "Delays",
    "Detection",
    "FalseAlarms",
    "OperatingCharacteristics",
    "Progress",
    "Scenario",
    "Share",
    "SimulationPlan",
    "Truth",
    "operating_characteristics",
]
