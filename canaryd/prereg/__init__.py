"""The registration: the only place where a protocol number lives, parsed whole and refused where it makes no sense.

Nothing has a default here: what is not registered does not exist. `parse` reads one file; `check_plan` holds what it
says against the panel and the controls, before any data exist.
"""

from canaryd.prereg.model import JudgeRule, Planning, Prereg, Statement
from canaryd.prereg.parse import load, parse, required_days
from canaryd.prereg.plan import WEAK_DAY_LEG_DAYS, check_plan

__all__ = [
    "WEAK_DAY_LEG_DAYS",
    "JudgeRule",
    "Planning",
    "Prereg",
    "Statement",
    "check_plan",
    "load",
    "parse",
    "required_days",
]
