"""From stored samples to decisions: every window that has ended gets its verdict, every transition its alarm row."""

from canaryd.analysis.alarms import alarm_state
from canaryd.analysis.decide import analyse, decision_of, verdict_of
from canaryd.analysis.evidence import Evidence
from canaryd.analysis.restarts import restarts
from canaryd.analysis.subject import Subject, load_subject, load_subjects

__all__ = [
    "Evidence",
    "Subject",
    "alarm_state",
    "analyse",
    "decision_of",
    "load_subject",
    "load_subjects",
    "restarts",
    "verdict_of",
]
