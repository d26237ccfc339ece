"""The judge of a panel's answers as metrics."""

from __future__ import annotations

from sqlalchemy import Connection

from canaryd.judging import judge_days
from canaryd.metrics.values import Values
from canaryd.prereg import Prereg
from canaryd.store import judges


def add_judge(connection: Connection, values: Values, *, series: str, protocol: Prereg) -> None:
    """Add the state of a series' judge, how far it agrees with people, and how many items stand beside for it."""
    items, rule = judges.judged_items(connection, series), protocol.judge
    values.add("judged_excluded", sum(not is_measured for is_measured in items.values()), series)
    values.add("judged_primary", rule is not None and rule.primary, series)
    readings = judges.readings(connection, series) if items else ()
    if not readings or rule is None:
        values.add_state("judge_state", "none", series)
        return
    newest = judge_days(readings, max_anchors_moved=rule.max_anchors_moved)[-1]
    values.add_state("judge_state", newest.state, series)
    values.add("judge_anchors_moved", len(newest.moved), series)
    if newest.reading.said:
        values.add("judge_agreement_ratio", newest.reading.agreeing / len(newest.reading.said), series)
    for model in newest.reading.resolved or ("",):
        values.add("judge_info", 1, series, newest.reading.identity, model)
