"""What the demo plays: two models, one of which changes on a given day, and the calendar of the registration."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from canaryd.panel import Panel
from canaryd.providers.simulated_answers import answer_pair
from canaryd.providers.simulated_model import Era, SimulatedModel, shift_for_drop

DAY_1 = date(2027, 1, 1)
TRACKED, CONTROL = "demo-large", "demo-small"


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The numbers of one play; `drop` is the loss of mean score, `token_factor` what is left of the tokens."""

    items: int
    baseline_days: int
    window_days: int
    windows: int
    seed: int
    port: int
    drop: float = 0.15
    token_factor: float = 0.67

    @property
    def days(self) -> int:
        """The number of days that are measured."""
        return self.baseline_days + self.windows * self.window_days

    @property
    def change_day(self) -> int:
        """The series day on which the tracked model changes: the first of the second window."""
        return self.baseline_days + self.window_days + 1

    def date_of(self, day: int) -> date:
        """Return the slot date of a series day, counted from 1."""
        return DAY_1 + timedelta(days=day - 1)


FULL = DemoPlan(items=72, baseline_days=20, window_days=10, windows=4, seed=11, port=10878)
QUICK = DemoPlan(items=24, baseline_days=6, window_days=3, windows=4, seed=11, port=10878, drop=0.3)


def models_of(plan: DemoPlan, panel: Panel) -> tuple[SimulatedModel, SimulatedModel]:
    """Return the tracked model, which changes on the plan's change day unless nothing changes, and the control."""
    answers = {item.item_id: answer_pair(item) for item in panel.items}
    tracked = SimulatedModel(model=TRACKED, arm=TRACKED, seed=plan.seed, answers=answers)
    control = SimulatedModel(model=CONTROL, arm=CONTROL, seed=plan.seed, answers=answers)
    if plan.drop == 0:
        return tracked, control
    shift = shift_for_drop([tracked.ability(item.item_id) for item in panel.items], plan.drop)
    era = Era(plan.date_of(plan.change_day), logit_shift=shift, token_factor=plan.token_factor)
    return SimulatedModel(model=TRACKED, arm=TRACKED, seed=plan.seed, answers=answers, eras=(era,)), control


def registration_of(plan: DemoPlan, example: str) -> str:
    """Return the example registration with the plan's calendar in it."""
    for key, value in (
        ("baseline_days", plan.baseline_days),
        ("window_days", plan.window_days),
        ("horizon_days", plan.days),
    ):
        example = re.sub(rf"^{key} = \d+", f"{key} = {value}", example, count=1, flags=re.MULTILINE)
    return example


def configuration_of(plan: DemoPlan) -> str:
    """Return the configuration of the demo's project."""
    arms = "".join(
        f"""
[[series.arm]]
name = "{role}"
role = "{role}"
provider = "openai"
model = "{model}"
base_url = "http://127.0.0.1:{plan.port}/v1"
credential = "demo_api_key"
timeout_s = 20
concurrency = 8
params = {{ max_tokens = 256, temperature = 0 }}
"""
        for role, model in (("tracked", TRACKED), ("control", CONTROL))
    )
    return f"""\
# The demo's project: the models are simulated on 127.0.0.1:{plan.port}, and the calendar stands in demo-clock.txt.

[demo]
clock = "demo-clock.txt"

[store]
url = "sqlite:///canaryd.db"

[credentials]
demo_api_key_file = "demo-api-key.txt"

[[series]]
name = "demo"
panel = "panel/demo.jsonl"
prereg = "prereg.toml"
seed = {plan.seed}
{arms}"""
